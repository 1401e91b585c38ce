/**
 * The supervisor: the one long-lived process of a home. It holds the lock, the socket and the sandboxes' boundaries,
 * and keeps nothing that is not in the store: killed at any instruction, the next one goes on.
 */
import { randomBytes } from 'node:crypto'
import { existsSync, rmSync } from 'node:fs'
import { CraikError } from '../errors.ts'
import type { Clock } from '../lib/clock.ts'
import { addPins, PINNED, pinPrograms } from '../lib/host-programs.ts'
import { packageFile } from '../lib/package-files.ts'
import { writePrivateFile } from '../lib/private-files.ts'
import { isListening, listenUnixSocket } from '../lib/unix-socket.ts'
import { API_VERSION } from '../operator/api/api-constants.ts'
import type { SupervisorBody, VersionBody } from '../operator/api/bodies.ts'
import { createOperatorApi } from '../operator/api.ts'
import type { SupervisedSandboxes } from '../sandboxes/manager.ts'
import type { Home } from '../store/home.ts'
import { startAutosave } from './autosave.ts'
import { type Build, buildOf } from './build-version.ts'
import { ClientConnections } from './client-connections.ts'
import { waitForLock } from './lock.ts'
import { readLockOwner, recordLockOwner, runningLockOwner } from './lock-owner.ts'
import { holdHome, type OpenHome } from './open-home.ts'
import { ensureRunFolder, type RunFolder } from './run-folder.ts'
import { openSupervisorLog, type SupervisorLog } from './supervisor-log.ts'

export interface SupervisorOptions {
  readonly home: Home
  readonly clock: Clock
  readonly mainFile: string
  readonly idleMs: number
  /** How often the sandboxes of logins are saved. */
  readonly autosaveMs: number
  /** Aborts on SIGTERM and SIGINT. */
  readonly signal: AbortSignal
  readonly operator: () => Promise<string>
  readonly openSandboxes: (log: SupervisorLog) => Promise<SupervisedSandboxes>
}

/** How long one that leaves has: its requests, then its sandboxes' last writes. */
const DRAIN_MS = 5_000
const CLOSE_MS = 10_000
const APP_CLOSE_MS = 1_000
/** Of one whose home is gone: enough to tell its clients that it leaves. */
const GONE_DRAIN_MS = 500
/** For one and the same holder; longer than leaving takes. */
const LOCK_WAIT_MS = 20_000

/** Serves until it is told to leave, or nothing is left to hold. Returns at once when the home has a supervisor. */
export async function runSupervisor(options: SupervisorOptions): Promise<void> {
  const { home, clock } = options
  const folder = ensureRunFolder(home)
  using heldHome = holdHome(home.root)
  using log = openSupervisorLog(folder.log, () => clock.nowMs())
  const lock = await waitForLock(folder.lock, {
    waitMs: LOCK_WAIT_MS,
    holder: () => readLockOwner(folder),
    giveUp: () => isListening(folder.socket),
    signal: options.signal,
  })
  if (lock === undefined) {
    if (options.signal.aborted || (await isListening(folder.socket))) return
    throw homeLockedError(folder)
  }
  const onFatal = (error: unknown) => {
    log.write('error', 'internal error', faultOf(error))
    process.exit(70)
  }
  process.on('uncaughtException', onFatal).on('unhandledRejection', onFatal)
  try {
    const startedAtMs = clock.nowMs()
    const build = buildOf(options.mainFile)
    recordLockOwner(folder, build, startedAtMs)
    heldHome.watch(folder.lock)
    await serve(options, folder, heldHome, log.write, build, startedAtMs)
  } catch (error) {
    log.write('error', 'failed', faultOf(error))
    throw error
  } finally {
    rmSync(folder.info, { force: true })
    lock.release()
    process.off('uncaughtException', onFatal).off('unhandledRejection', onFatal)
  }
}

function homeLockedError(folder: RunFolder): CraikError {
  const pid = runningLockOwner(folder)
  const which = pid === undefined ? '' : ` (pid ${pid})`
  const message = `another supervisor${which} holds the lock and has not answered for ${LOCK_WAIT_MS / 1000} s`
  const hint = pid === undefined ? {} : { hint: `end it (sandboxes keep running):  kill -9 ${pid}` }
  return new CraikError('supervisor_unreachable', message, hint)
}

async function serve(
  options: SupervisorOptions,
  folder: RunFolder,
  heldHome: OpenHome,
  log: SupervisorLog,
  build: Build,
  startedAtMs: number,
): Promise<void> {
  const token = randomBytes(32).toString('hex')
  const leave = Promise.withResolvers<string>()
  let sandboxes: SupervisedSandboxes | undefined
  let draining = false
  const program = [options.mainFile, packageFile('package.json')]
  const isHomeGone = () => {
    const isGone = heldHome.state() !== 'here'
    if (isGone) leave.resolve('the home folder is missing or was replaced')
    return isGone
  }

  const opening = options.openSandboxes(log).then(async (opened) => {
    heldHome.watch(options.home.database)
    await opened.recover()
    sandboxes = opened
    return opened
  })
  opening.catch(() => {})
  const version = (): VersionBody => ({
    api: API_VERSION,
    ...build,
    pid: process.pid,
    ready: sandboxes !== undefined,
    programs: Object.keys(pinPrograms(process.env).programs),
    program_gone: !program.every((file) => existsSync(file)),
  })
  const status = async (): Promise<SupervisorBody> => ({
    ...version(),
    started_at_ms: startedAtMs,
    draining,
    sandboxes: sandboxes === undefined ? 0 : (await sandboxes.list()).filter(goesOn).length,
    warm: sandboxes?.warm ?? 0,
    connections: connections.open,
    memory_bytes: process.memoryUsage.rss(),
    idle_ms: options.idleMs,
    engine: process.env.CRAIK_ENGINE || process.env.DOCKER_HOST || null,
  })
  const { app } = await createOperatorApi({
    manager: opening,
    operator: options.operator,
    token,
    supervisor: {
      version,
      status,
      offerPrograms(programs) {
        process.env[PINNED] = addPins(process.env, programs)
      },
      get draining() {
        // Its socket moves with the home, so requests still reach it; whatever they ask is for the next one.
        return draining || isHomeGone()
      },
      drain: () => leave.resolve('requested'),
    },
    onFault: (error, where) => log('error', 'internal error in a request', { where, ...faultOf(error) }),
  })
  const connections = new ClientConnections(app.server)
  writePrivateFile(folder.token, `${token}\n`)
  // Whoever holds the lock owns the name; what lies there is of one that is gone.
  rmSync(folder.socket, { force: true })
  using _name = await listenUnixSocket(app.server, folder.socket, 0o600)
  log('info', 'started', { version: build.version, build: build.build })

  const stop = () => leave.resolve('received a signal')
  options.signal.addEventListener('abort', stop)
  if (options.signal.aborted) stop()
  const idle = watchIdle(
    options.idleMs,
    () => isHomeGone() || connections.open > 0 || (sandboxes?.busy ?? true),
    () => leave.resolve('idle'),
  )
  const autosave = startAutosave({
    home: options.home,
    clock: options.clock,
    mainFile: options.mainFile,
    log,
    everyMs: options.autosaveMs,
    list: async () => (await sandboxes?.list()) ?? [],
  })
  try {
    // Without its sandboxes there is nothing to serve: whoever asked for it sees why in the log.
    const reason = await Promise.race([leave.promise, opening.then(() => leave.promise)])
    log('info', 'shutting down', { reason })
  } finally {
    clearInterval(idle)
    options.signal.removeEventListener('abort', stop)
    draining = true
    const home = heldHome.state()
    if (home !== 'here') {
      log('warn', 'exiting at once: the home folder is missing or was replaced', { home })
      // Closing removes the socket by its old path, which by now may be that of another home.
      if (!existsSync(folder.socket)) app.server.close()
      await within(CLOSE_MS, Promise.all([autosave.close(), connections.end(GONE_DRAIN_MS)]))
      // No record of this home names its sandboxes any longer. Those of a moved home continue there.
      if (home !== 'moved') await within(CLOSE_MS, sandboxes?.endAll() ?? Promise.resolve())
      // As if it was killed: everything else that it does when it leaves writes to the old path.
      process.exit(0)
    }
    app.server.close()
    await Promise.all([autosave.close(), connections.end(DRAIN_MS)])
    await within(
      CLOSE_MS,
      opening.then(
        (opened) => opened.close(),
        () => {},
      ),
    )
    await within(APP_CLOSE_MS, app.close())
    log('info', 'stopped')
  }
}

/** What is stopped or lost needs nobody. */
function goesOn({ state }: { readonly state: string }): boolean {
  return state !== 'stopped' && state !== 'lost'
}

/** Looks now and then; a moment of use starts the time anew. */
function watchIdle(idleMs: number, inUse: () => boolean, onIdle: () => void): NodeJS.Timeout {
  let lastUse = performance.now()
  return setInterval(
    () => {
      if (inUse()) lastUse = performance.now()
      else if (performance.now() - lastUse >= idleMs) onIdle()
    },
    Math.max(10, Math.min(1_000, idleMs / 4)),
  )
}

async function within(ms: number, work: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const deadline = new Promise<void>((done) => {
    timer = setTimeout(done, ms)
  })
  await Promise.race([work, deadline])
  clearTimeout(timer)
}

/** Of a fault: where it happened, without what it happened to. */
function faultOf(error: unknown): { readonly error: string; readonly stack: string } {
  if (!(error instanceof Error)) return { error: String(error).slice(0, 500), stack: '' }
  return { error: error.message.slice(0, 500), stack: (error.stack ?? '').slice(0, 4_000) }
}
