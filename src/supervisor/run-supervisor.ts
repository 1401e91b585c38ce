/**
 * The supervisor: the only long-lived process of a home. It owns the lock, the socket and the sandboxes' boundaries.
 * All its state is in the store, so if it is killed at any instruction, the next supervisor continues.
 */
import { randomBytes } from 'node:crypto'
import { existsSync, rmSync } from 'node:fs'
import { CraikError } from '../errors.ts'
import type { Clock } from '../lib/clock.ts'
import { addPins, PINS_VARIABLE, pinPrograms } from '../lib/host-programs.ts'
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
import { type OpenHome, openHome } from './open-home.ts'
import { ensureRunFolder, type RunFolder } from './run-folder.ts'
import { openSupervisorLog, type SupervisorLog } from './supervisor-log.ts'

export interface SupervisorOptions {
  readonly home: Home
  readonly clock: Clock
  readonly mainFile: string
  readonly idleMs: number
  /** How often login sandboxes are saved. */
  readonly autosaveMs: number
  /** Aborts on SIGTERM and SIGINT. */
  readonly signal: AbortSignal
  readonly operator: () => Promise<string>
  readonly openSandboxes: (log: SupervisorLog) => Promise<SupervisedSandboxes>
}

/** The time limits of a shutdown: for open requests, and then for the last writes of the sandboxes. */
const DRAIN_MS = 5_000
const CLOSE_MS = 10_000
const APP_CLOSE_MS = 1_000
/** The time limit when the home is gone: enough to tell the clients that this supervisor exits. */
const GONE_DRAIN_MS = 500
/** How long to wait for the same owner of the lock. A shutdown takes less. */
const LOCK_WAIT_MS = 20_000

/** Serves until it is asked to exit, or is idle. Returns at once when the home has a supervisor. */
export async function runSupervisor(options: SupervisorOptions): Promise<void> {
  const { home, clock } = options
  const folder = ensureRunFolder(home)
  using heldHome = openHome(home.root)
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
    sandboxes: sandboxes === undefined ? 0 : (await sandboxes.list()).filter(needsSupervisor).length,
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
        process.env[PINS_VARIABLE] = addPins(process.env, programs)
      },
      get draining() {
        // The socket moves with the home, so requests still arrive. The next supervisor has to answer them.
        return draining || isHomeGone()
      },
      drain: () => leave.resolve('requested'),
    },
    onFault: (error, where) => log('error', 'internal error in a request', { where, ...faultOf(error) }),
  })
  const connections = new ClientConnections(app.server)
  writePrivateFile(folder.token, `${token}\n`)
  // The owner of the lock owns this path. A file there is from a supervisor that no longer runs.
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
    // Without sandboxes there is nothing to serve. The user finds the reason in the log.
    const reason = await Promise.race([leave.promise, opening.then(() => leave.promise)])
    log('info', 'shutting down', { reason })
  } finally {
    clearInterval(idle)
    options.signal.removeEventListener('abort', stop)
    draining = true
    const home = heldHome.state()
    if (home !== 'here') {
      log('warn', 'exiting at once: the home folder is missing or was replaced', { home })
      // Closing removes the socket by its old path, where another home's socket may be by now.
      if (!existsSync(folder.socket)) app.server.close()
      await within(CLOSE_MS, Promise.all([autosave.close(), connections.end(GONE_DRAIN_MS)]))
      // No record in this home names its sandboxes any longer, so they end. The sandboxes of a moved home continue
      // there.
      if (home !== 'moved') await within(CLOSE_MS, sandboxes?.endAll() ?? Promise.resolve())
      // Exit as if it was killed, because the rest of a shutdown writes to the old path.
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

/** Returns whether a sandbox needs a supervisor. A stopped or lost sandbox needs none. */
function needsSupervisor({ state }: { readonly state: string }): boolean {
  return state !== 'stopped' && state !== 'lost'
}

/** Checks at intervals whether the supervisor is in use. Each use restarts the time. */
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

/** Returns only the message and the stack of an error, without its other properties. */
function faultOf(error: unknown): { readonly error: string; readonly stack: string } {
  if (!(error instanceof Error)) return { error: String(error).slice(0, 500), stack: '' }
  return { error: error.message.slice(0, 500), stack: (error.stack ?? '').slice(0, 4_000) }
}
