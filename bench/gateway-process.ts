/** The processes of the gateway's measurement: each listens on loopback, says where, and leaves with its parent. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { AddressInfo, Server } from 'node:net'

/** In the child. */
export async function listen(server: Server): Promise<void> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  process.send!((server.address() as AddressInfo).port)
  process.once('disconnect', () => process.exit())
}

export interface Listening extends Disposable {
  readonly origin: string
  /** What it holds now, in bytes. */
  rss(): number
}

/** In the parent. */
export async function started(file: string, ...args: string[]): Promise<Listening> {
  const child: ChildProcess = fork(new URL(file, import.meta.url), args, {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  const [port] = await Promise.race([
    once(child, 'message'),
    once(child, 'exit').then(() => {
      throw new Error(`${file} did not start`)
    }),
  ])
  return {
    origin: `http://127.0.0.1:${port}`,
    rss: () => Number(/^VmRSS:\s*(\d+)/m.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))![1]) * 1024,
    [Symbol.dispose]: () => child.kill(),
  }
}
