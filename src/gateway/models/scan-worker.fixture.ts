/** The scan thread, with test commands that make it hang, die or reveal its data. */
import { parentPort, workerData } from 'node:worker_threads'
import type { ScanJob } from './body-scan.ts'

parentPort!.on('message', ({ memory, length }: ScanJob) => {
  const text = Buffer.from(memory, 0, length)
  if (text.includes('hang here')) for (;;);
  if (text.includes('die here')) process.exit(1)
})
const { env, argv, execArgv } = process
if (argv.length > 2 || execArgv.length > 0 || workerData !== null || Object.keys(env).length > 0)
  throw new Error(`it knows more than it should: ${JSON.stringify({ env, argv, execArgv, workerData })}`)
await import('./scan-worker.ts')
