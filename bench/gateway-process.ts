/**
 * Starts the processes of the gateway measurement. Each listens on loopback, sends its port to its parent, and exits
 * with it.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { AddressInfo, Server } from 'node:net'

/** Linux counts CPU time in hundredths of a second. */
const MS_PER_TICK = 10

/** Runs in the child: listens, and sends the port to the parent. */
export async function listen(server: Server): Promise<void> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  process.send!((server.address() as AddressInfo).port)
  process.once('disconnect', () => process.exit())
}

export interface Listening extends Disposable {
  readonly origin: string
  /** The resident memory at this moment, in bytes. */
  rss(): number
}

export interface Measured extends Listening {
  /** The CPU time of all its threads since it started, in milliseconds. */
  cpuMs(): number
}

/** Runs in the parent: starts a file of this folder and waits until it listens. */
export async function startFile(file: string, ...args: string[]): Promise<Measured> {
  return startUrl(new URL(file, import.meta.url), ...args)
}

/** Runs in the parent: starts a file of any checkout and waits until it listens. */
export async function startUrl(file: URL, ...args: string[]): Promise<Measured> {
  const child: ChildProcess = fork(file, args, {
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
    cpuMs() {
      const stat = readFileSync(`/proc/${child.pid}/stat`, 'latin1')
      const [user, system] = stat
        .slice(stat.lastIndexOf(')') + 2)
        .split(' ')
        .slice(11, 13)
      return (Number(user) + Number(system)) * MS_PER_TICK
    },
    [Symbol.dispose]: () => child.kill(),
  }
}
