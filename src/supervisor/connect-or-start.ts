/** Finds the supervisor of a home, and starts one when none runs. */
import { existsSync, lstatSync } from 'node:fs'
import { CraikError, ERRORS } from '../errors.ts'
import { delay } from '../lib/delay.ts'
import { pinPrograms, USER_PROGRAMS } from '../lib/host-programs.ts'
import { ensurePrivateFolder } from '../lib/private-files.ts'
import { API_VERSION } from '../operator/api/api-constants.ts'
import type { VersionBody } from '../operator/api/bodies.ts'
import { type ApiClient, createClient } from '../sdk/client.ts'
import { type ApiEndpoint, jsonOf, LostConnection, Transport } from '../sdk/transport.ts'
import type { Home } from '../store/home.ts'
import { type Build, buildOf, compareBuilds } from './build-version.ts'
import { readLockOwner, runningLockOwner } from './lock-owner.ts'
import { lastLines } from './log-tail.ts'
import { ensureRunFolder, type RunFolder, readToken, runFolder } from './run-folder.ts'
import { type StartedSupervisor, startSupervisor } from './start.ts'
import { SupervisorTimeouts } from './supervisor-timeouts.ts'

export interface SupervisorDeps {
  readonly home: Home
  /** The program's own file: the supervisor is another run of it. */
  readonly mainFile: string
  readonly environment: NodeJS.ProcessEnv
  /** Returns the folders of the host that sandboxes can write. Without it, Craik assumes that there are none. */
  readonly mounted?: () => Promise<readonly string[]>
  /** The flags of `supervisor run`, for a supervisor that this process starts. */
  readonly runFlags?: readonly string[]
  readonly signal?: AbortSignal
}

/**
 * The time limits for one supervisor: until it answers, and until it has taken over the existing sandboxes. If another
 * supervisor replaces it, the time starts again, up to the limit for all of them together. The limits are for a slow
 * host on which many commands start at once.
 */
const START_MS = 30_000
const RECOVER_MS = 60_000
const ALL_MS = 180_000
/** The time limit of a single request. */
const ANSWER_MS = 5_000
const FIRST_POLL_MS = 15
const LAST_POLL_MS = 100
/** The exit codes of a supervisor that did not get the home because another one has it. That is not an error. */
const LOST_EXITS: readonly (number | undefined)[] = [0, ERRORS.supervisor_unreachable.exit]
const ERROR_LOG_LINES = 3
/** The prefix of every error message of a command. */
const ERROR_PREFIX = 'craik: '

/**
 * Returns a client of this home's supervisor. Finds or starts the supervisor now, and again each time that it exits.
 */
export async function connectSupervisor(deps: SupervisorDeps): Promise<ApiClient> {
  const mine = buildOf(deps.mainFile)
  let first: ApiEndpoint | undefined = await ensureSupervisor(deps, mine, deps.signal)
  return createClient({
    connect: async (until) => {
      const found = first
      first = undefined
      if (found === undefined) requireHome(deps.home)
      return found ?? ensureSupervisor(deps, mine, until)
    },
  })
}

/** If a home is moved or removed while a command runs, the command must not create an empty home at the old path. */
function requireHome(home: Home): void {
  if (homeExists(home)) return
  throw new CraikError('home_unwritable', 'the home folder was moved or removed while this command ran', {
    hint: 'set CRAIK_HOME to the new path of the folder, if it was moved',
  })
}

/**
 * Returns a client of the running supervisor. Returns `undefined` when none runs. Starts nothing and creates no folder.
 */
export async function findSupervisor(
  deps: Pick<SupervisorDeps, 'home' | 'signal'>,
): Promise<ApiClient | undefined> {
  // In a home of another user this process sees no files, which does not mean that there are none.
  if (homeExists(deps.home)) ensurePrivateFolder(deps.home.root, 'home folder')
  if (!existsSync(runFolder(deps.home).socket)) return undefined
  const folder = ensureRunFolder(deps.home)
  const found = await probeSupervisor(folder, deps.signal)
  if (found === undefined) return undefined
  if (found === 'silent') throw toSilentError(folder, ANSWER_MS)
  const endpoint = { socketPath: folder.socket, token: found.token }
  return createClient({ connect: async () => endpoint, timeoutMs: 0 })
}

function homeExists({ root }: Home): boolean {
  try {
    return lstatSync(root, { throwIfNoEntry: false }) !== undefined
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    throw new CraikError('home_unwritable', `cannot access the home folder (${code})`, {
      hint: 'run as the owner of the home, or set CRAIK_HOME to a folder of your own',
      cause,
    })
  }
}

async function ensureSupervisor(
  deps: SupervisorDeps,
  mine: Build,
  signal: AbortSignal | undefined,
): Promise<ApiEndpoint> {
  const folder = ensureRunFolder(deps.home)
  const timeouts = new SupervisorTimeouts()
  let limitMs = START_MS
  let starting: StartedSupervisor | undefined
  for (let pollMs = FIRST_POLL_MS; ; pollMs = Math.min(LAST_POLL_MS, pollMs * 1.1)) {
    signal?.throwIfAborted()
    const found = await probeSupervisor(folder, signal)
    if (found === undefined) {
      // The supervisor that this process started lost the home to another one, or was killed. Start the next one,
      // because the other one may have exited by now.
      if (starting === undefined || LOST_EXITS.includes(starting.exitCode()))
        starting = await startSupervisor(deps, folder)
    } else if (found === 'silent') {
      // A supervisor has the home, and may be busy or suspended.
    } else if (!isUsable(found.version, mine)) await drain(folder, found.token, signal)
    else if (found.version.ready) {
      await offerPrograms(deps, folder, found, signal)
      return { socketPath: folder.socket, token: found.token }
    } else limitMs = RECOVER_MS
    const exitCode = starting?.exitCode() ?? 0
    if (!LOST_EXITS.includes(exitCode)) throw toStartError(folder, exitCode)
    timeouts.waitFor(readLockOwner(folder))
    if (timeouts.sameProcessMs > limitMs) throw toSlowError(folder, limitMs, found === 'silent')
    if (timeouts.totalMs > ALL_MS) throw toSlowError(folder, ALL_MS, false)
    await delay(pollMs, signal)
  }
}

/**
 * Returns whether this command can use the running supervisor. A supervisor of another build is replaced, unless it is
 * newer. A newer one can be used if it speaks the same API and its program still exists. If it has the same version but
 * its program is missing, this command replaces it.
 */
function isUsable(theirs: VersionBody, mine: Build): boolean {
  if (theirs.build === mine.build) return !theirs.program_gone
  if (compareBuilds(mine, theirs) > 0) return false
  if (theirs.program_gone && theirs.version === mine.version) return false
  if (theirs.api === API_VERSION && !theirs.program_gone) return true
  const gone = theirs.program_gone ? ', and its program is missing' : ''
  throw new CraikError(
    'version_mismatch',
    `the supervisor of this home is newer (${theirs.version}) than this command (${mine.version})${gone}`,
    { hint: 'use the newer craik, or stop its supervisor first:  craik supervisor stop' },
  )
}

interface Found {
  readonly version: VersionBody
  readonly token: string
}

/**
 * Returns `undefined` when no supervisor answers, or it is shutting down. Returns `silent` when a process accepts
 * connections but does not answer.
 */
async function probeSupervisor(
  folder: RunFolder,
  signal: AbortSignal | undefined,
): Promise<Found | 'silent' | undefined> {
  if (!existsSync(folder.token)) return undefined
  const token = readToken(folder)
  const version = await request<VersionBody>(folder, token, 'GET', '/api/version', signal)
  return version === undefined || version === 'silent' ? version : { version, token }
}

/**
 * A supervisor does not search the PATH of any user. If it was started without a program such as `gh` on its PATH, this
 * offers it the one on this command's PATH. The supervisor checks by itself whether to trust it.
 */
async function offerPrograms(
  { environment }: SupervisorDeps,
  folder: RunFolder,
  { version, token }: Found,
  signal: AbortSignal | undefined,
): Promise<void> {
  const missing = USER_PROGRAMS.filter((name) => version.programs?.includes(name) === false)
  const { programs } = pinPrograms(environment, missing)
  if (Object.keys(programs).length === 0) return
  await request(folder, token, 'PUT', '/api/supervisor/programs', signal, { programs })
}

/** Asks the supervisor to exit. Sandboxes continue, and clients resume their streams with the next supervisor. */
async function drain(folder: RunFolder, token: string, signal: AbortSignal | undefined): Promise<void> {
  await request(folder, token, 'POST', '/api/supervisor/drain', signal)
}

async function request<T>(
  folder: RunFolder,
  token: string,
  method: 'GET' | 'POST' | 'PUT',
  path: string,
  signal: AbortSignal | undefined,
  json?: object,
): Promise<T | 'silent' | undefined> {
  const transport = new Transport({ socketPath: folder.socket, token })
  const limit = AbortSignal.timeout(ANSWER_MS)
  const until = signal ? AbortSignal.any([signal, limit]) : limit
  try {
    return await jsonOf<T>(await transport.send({ method, path, signal: until, ...(json && { json }) }))
  } catch (error) {
    signal?.throwIfAborted()
    if (limit.aborted) return 'silent'
    if (error instanceof LostConnection) return undefined
    // A new supervisor has written its token and not yet opened its socket, or the old one is shutting down.
    const another = error instanceof CraikError && error.code === 'unauthorized'
    const leaving = error instanceof CraikError && error.details?.draining === true
    if (another || leaving) return undefined
    throw error
  } finally {
    transport.close(true)
  }
}

/** The error gets no hint of its own when no process is known to hold the home. The log then says more. */
function toSlowError(folder: RunFolder, afterMs: number, isSilent: boolean): CraikError {
  if (isSilent) return toSilentError(folder, afterMs)
  const pid = runningLockOwner(folder)
  const what = pid === undefined ? 'the supervisor' : `the supervisor (pid ${pid})`
  const hint = pid === undefined ? undefined : killHint(folder)
  return toNotStartedError(folder, `${what} was not ready after ${afterMs / 1000} s`, { slow: true }, hint)
}

function toSilentError(folder: RunFolder, afterMs: number): CraikError {
  return new CraikError(
    'supervisor_unreachable',
    `the supervisor accepts connections but did not answer for ${afterMs / 1000} s`,
    { hint: killHint(folder), details: { slow: true } },
  )
}

function killHint(folder: RunFolder): string {
  return `end it (sandboxes keep running):  kill -9 ${runningLockOwner(folder) ?? 'PID'}`
}

/**
 * The user can fix a mistake in a configuration file. The error therefore repeats the supervisor's own message, as any
 * other command reports it.
 */
function toStartError(folder: RunFolder, exitCode: number): CraikError {
  const log = lastLines(folder.log, ERROR_LOG_LINES)
  const at = log.findLastIndex((line) => line.startsWith(ERROR_PREFIX))
  if (exitCode !== ERRORS.invalid_config.exit || at === -1)
    return toNotStartedError(folder, `the supervisor ended with exit code ${exitCode}`)
  const hint = log[at + 1]?.trim()
  return new CraikError('invalid_config', log[at]!.slice(ERROR_PREFIX.length), { ...(hint && { hint }) })
}

function toNotStartedError(
  folder: RunFolder,
  what: string,
  details: { readonly slow?: true } = {},
  hint?: string,
): CraikError {
  const log = lastLines(folder.log, ERROR_LOG_LINES)
  return new CraikError('supervisor_unreachable', [what, ...log].join(' · '), {
    details: { log, ...details },
    ...(hint !== undefined && { hint }),
  })
}
