/** Starts @portkey-ai/gateway if `npm ci --prefix bench/portkey` installed it. Otherwise the bench skips it. */
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Listening } from './gateway-process.ts'

const START = fileURLToPath(
  new URL('portkey/node_modules/@portkey-ai/gateway/build/start-server.js', `file://${import.meta.dirname}/`),
)

export async function portkey(
  upstream: string,
): Promise<{ readonly server: Listening; readonly headers: Record<string, string> } | undefined> {
  if (!existsSync(START)) return undefined
  const port = await freePort()
  const child: ChildProcess = spawn(process.execPath, [START, `--port=${port}`, '--headless'], {
    stdio: 'ignore',
  })
  const origin = `http://127.0.0.1:${port}`
  for (let i = 0; ; i++) {
    if (
      await fetch(origin).then(
        () => true,
        () => false,
      )
    )
      break
    if (i > 100) throw new Error('the other gateway did not start')
    await delay(100)
  }
  return {
    headers: {
      'x-portkey-provider': 'anthropic',
      'x-portkey-custom-host': `${upstream}/v1`,
      'x-api-key': 'bench-key-0123456789',
      'anthropic-version': '2023-06-01',
    },
    server: {
      origin,
      rss: () =>
        Number(/^VmRSS:\s*(\d+)/m.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))![1]) * 1024,
      [Symbol.dispose]: () => child.kill(),
    },
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address() as { port: number }
  await new Promise((resolve) => server.close(resolve))
  return port
}
