/**
 * The program that runs in a sandbox. It connects to the host, or listens for it, and carries out its requests until it
 * is stopped.
 */
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

/** The bundler sets this. */
declare const CRAIK_VERSION: string | undefined
const version = typeof CRAIK_VERSION === 'string' ? CRAIK_VERSION : 'source'

/** From sysexits.h: the input cannot be used. */
const REFUSED_EXIT = 64

/** With more faults than this within a minute, the cause does not go away by itself. */
const MAX_FAULTS_PER_MINUTE = 100

const refused = REFUSED_VARIABLES.find((name) => process.env[name])
if (refused !== undefined) {
  writeSync(2, `craik: ${refused} is set, but a sandbox must not have it\n`)
  process.exit(REFUSED_EXIT)
}

/** The host starts the sidecar once in this mode, so that Node compiles everything and caches it for later starts. */
const isWarming = process.env.CRAIK_WARM === '1'

if (isWarming) {
  await warm(readSettings(process.env), version)
  process.exit(0)
}
// As in a container, programs here create files that others can read, whatever the umask of the process that started
// the sandbox.
process.umask(0o022)
await run()

async function run(): Promise<void> {
  const log = createBoundedLog((line) => process.stderr.write(`${line}\n`))
  process.stderr.on('error', () => {})
  continueAfterFaults(log)
  const settings = readSettings(process.env)
  // The thread pool starts with its first work. Later there may be no process left for its threads.
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
      ? // When the home was deleted, no sandbox may continue to run.
        new Dialler({ socket: settings.socket, serve: serveOne, log, onFolderRemoved: release })
      : new Listener({ socket: settings.listen, serve: serveOne, log })
  process.once('SIGTERM', release)
  process.once('SIGINT', release)
  process.on('SIGHUP', () => {})
}

/** All jobs in the sandbox depend on this process, so an unexpected failure of one request must not end it. */
function continueAfterFaults(log: (line: string) => void): void {
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
