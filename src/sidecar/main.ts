/** The program inside a sandbox: it dials the host, or waits for it, and does what it asks, until it is told to end. */
import { writeSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import type { Socket } from 'node:net'
import { createBoundedLog } from './bounded-log.ts'
import { Dialler } from './dial.ts'
import { Listener } from './listen.ts'
import { REFUSED_VARIABLES } from './protocol.ts'
import { serve } from './server.ts'
import { readSettings } from './settings.ts'
import { createSidecar } from './sidecar.ts'
import { warm } from './warm.ts'

/** Put in by the bundler. */
declare const CRAIK_VERSION: string | undefined
const version = typeof CRAIK_VERSION === 'string' ? CRAIK_VERSION : 'source'

/** Of sysexits.h: what was given cannot be used. */
const REFUSED_EXIT = 64

/** More faults than this within a minute: whatever it is, it does not go away by itself. */
const MAX_FAULTS_PER_MINUTE = 100

const refused = REFUSED_VARIABLES.find((name) => process.env[name])
if (refused !== undefined) {
  writeSync(2, `craik: ${refused} is set, but a sandbox must not have it\n`)
  process.exit(REFUSED_EXIT)
}

/** The host starts it once like this to have everything compiled, and kept for the starts that count. */
const isWarming = process.env.CRAIK_WARM === '1'

if (isWarming) {
  await warm(readSettings(process.env), version)
  process.exit(0)
}
// As in a container: what runs here makes files that others can read, whatever the umask of who started the sandbox.
process.umask(0o022)
await run()

async function run(): Promise<void> {
  const log = createBoundedLog((line) => process.stderr.write(`${line}\n`))
  process.stderr.on('error', () => {})
  goOnAfterFaults(log)
  const settings = readSettings(process.env)
  // The thread pool starts with its first work: later there may be no process left for its threads.
  const [sidecar] = await Promise.all([createSidecar({ settings, version, env: process.env }), stat('/')])
  const release = () => {
    void sidecar.close().finally(() => {
      line.close()
      process.exit(0)
    })
  }
  const serveOne = (socket: Socket) => serve(socket, sidecar.router, log)
  const line =
    settings.listen === undefined
      ? // A home that was deleted leaves no sandbox running.
        new Dialler({ socket: settings.socket, serve: serveOne, log, onForgotten: release })
      : new Listener({ socket: settings.listen, serve: serveOne, log })
  process.once('SIGTERM', release)
  process.once('SIGINT', release)
  process.on('SIGHUP', () => {})
}

/** Every job inside hangs on this process, so one request that fails in an unforeseen way must not end it. */
function goOnAfterFaults(log: (line: string) => void): void {
  let faults: number[] = []
  const onFault = (error: unknown) => {
    log(`internal error in the sidecar: ${error instanceof Error ? error.stack : String(error)}`)
    const now = performance.now()
    faults = [...faults.filter((at) => now - at < 60_000), now]
    if (faults.length > MAX_FAULTS_PER_MINUTE) process.exit(70)
  }
  process.on('uncaughtException', onFault)
  process.on('unhandledRejection', onFault)
}
