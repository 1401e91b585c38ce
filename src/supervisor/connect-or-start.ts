/** Finds the supervisor of a home, and starts one when there is none. */
import { existsSync, lstatSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { CraikError, ERRORS } from '../errors.ts'
import { pinPrograms, USER_PROGRAMS } from '../lib/host-programs.ts'
import { ensurePrivateFolder } from '../lib/private-files.ts'
import { API_VERSION } from '../operator/api/api-constants.ts'
import type { VersionBody } from '../operator/api/bodies.ts'
import { type ApiClient, createClient } from '../sdk/client.ts'
import { type Endpoint, jsonOf, LostConnection, Transport } from '../sdk/transport.ts'
import type { Home } from '../store/home.ts'
import { type Build, buildOf, compareBuilds } from './build-version.ts'
import { readLockOwner, runningLockOwner } from './lock-owner.ts'
import { lastLines } from './log-tail.ts'
import { ensureRunFolder, type RunFolder, readToken, runFolder } from './run-folder.ts'
import { type Starting, startSupervisor } from './start.ts'
import { SupervisorTimeouts } from './supervisor-timeouts.ts'

export interface SupervisorDeps {
  readonly home: Home
  /** The program itself: the supervisor is another run of it. */
  readonly mainFile: string
  readonly environment: NodeJS.ProcessEnv
  /** Folders of the host that sandboxes can write; without it, none is known. */
  readonly mounted?: () => Promise<readonly string[]>
  /** Of `supervisor run`, when it is started here. */
  readonly runFlags?: readonly string[]
  readonly signal?: AbortSignal
}

/**
 * For one and the same supervisor: until it answers, and until it has taken over what is there. Another one has as long
 * again, up to the limit for all of them together. What matters is a slow machine on which many commands begin at once.
 */
const START_MS = 30_000
const RECOVER_MS = 60_000
const ALL_MS = 180_000
/** For a single answer. */
const ANSWER_MS = 5_000
const FIRST_POLL_MS = 15
const LAST_POLL_MS = 100
/** Of those that did not get the home, because another one has it: that is no fault. */
const LOST_EXITS: readonly (number | undefined)[] = [0, ERRORS.supervisor_unreachable.exit]
const SHOWN_LINES = 3
/** How a command begins to say what went wrong. */
const SAID = 'craik: '

/** A client of this home's supervisor, which is found or started now, and again whenever it goes away. */
export async function connectSupervisor(deps: SupervisorDeps): Promise<ApiClient> {
  const mine = buildOf(deps.mainFile)
  let first: Endpoint | undefined = await ensureSupervisor(deps, mine, deps.signal)
  return createClient({
    connect: async (until) => {
      const found = first
      first = undefined
      if (found === undefined) requireHome(deps.home)
      return found ?? ensureSupervisor(deps, mine, until)
    },
  })
}

/** A command that ran while its home was moved or removed does not make an empty one at the old path. */
function requireHome(home: Home): void {
  if (isThere(home)) return
  throw new CraikError('home_unwritable', 'the home folder was moved or removed while this command ran', {
    hint: 'if it was moved, set CRAIK_HOME to its new path',
  })
}

/** A client of the supervisor that runs now; undefined when none does. Starts nothing, and makes no folder. */
export async function findSupervisor(
  deps: Pick<SupervisorDeps, 'home' | 'signal'>,
): Promise<ApiClient | undefined> {
  // In a home of somebody else's nothing can be seen, which is not the same as nothing there.
  if (isThere(deps.home)) ensurePrivateFolder(deps.home.root, 'home folder')
  if (!existsSync(runFolder(deps.home).socket)) return undefined
  const folder = ensureRunFolder(deps.home)
  const found = await ask(folder, deps.signal)
  if (found === undefined) return undefined
  if (found === 'silent') throw silent(folder, ANSWER_MS)
  const endpoint = { socketPath: folder.socket, token: found.token }
  return createClient({ connect: async () => endpoint, timeoutMs: 0 })
}

function isThere({ root }: Home): boolean {
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
): Promise<Endpoint> {
  const folder = ensureRunFolder(deps.home)
  const timeouts = new SupervisorTimeouts()
  let limitMs = START_MS
  let starting: Starting | undefined
  for (let pollMs = FIRST_POLL_MS; ; pollMs = Math.min(LAST_POLL_MS, pollMs * 1.1)) {
    signal?.throwIfAborted()
    const found = await ask(folder, signal)
    if (found === undefined) {
      // One that lost to another is followed by the next: the other may be gone again by now, or was killed.
      if (starting === undefined || LOST_EXITS.includes(starting.exitCode()))
        starting = await startSupervisor(deps, folder)
    } else if (found === 'silent') {
      // It has the home, and may be busy or stopped.
    } else if (!isUsable(found.version, mine)) await drain(folder, found.token, signal)
    else if (found.version.ready) {
      await offerPrograms(deps, folder, found, signal)
      return { socketPath: folder.socket, token: found.token }
    } else limitMs = RECOVER_MS
    const exitCode = starting?.exitCode() ?? 0
    if (!LOST_EXITS.includes(exitCode)) throw startFailure(folder, exitCode)
    timeouts.waitFor(readLockOwner(folder))
    if (timeouts.withThisOneMs > limitMs) throw tooSlow(folder, limitMs, found === 'silent')
    if (timeouts.withAllMs > ALL_MS) throw tooSlow(folder, ALL_MS, false)
    await sleep(pollMs, undefined, signal && { signal })
  }
}

/**
 * One of other code is replaced, unless it is newer. A newer one that speaks the same API serves as well, as long as its
 * program is there; one of this version whose program is gone is replaced by whoever comes.
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

/** Undefined: nobody is there, or whoever is there is leaving. Silent: somebody takes connections and says nothing. */
async function ask(
  folder: RunFolder,
  signal: AbortSignal | undefined,
): Promise<Found | 'silent' | undefined> {
  if (!existsSync(folder.token)) return undefined
  const token = readToken(folder)
  const version = await request<VersionBody>(folder, token, 'GET', '/api/version', signal)
  return version === undefined || version === 'silent' ? version : { version, token }
}

/**
 * A supervisor looks at nobody's PATH. One that was started where `gh` was not on it is told of the one that is here; it checks
 * by itself whether to trust it.
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

/** It leaves; sandboxes go on, and what was streaming is resumed from the next one. */
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
    // A new one has made its token and not yet opened its socket, or the old one is on its way out.
    const another = error instanceof CraikError && error.code === 'unauthorized'
    const leaving = error instanceof CraikError && error.details?.draining === true
    if (another || leaving) return undefined
    throw error
  } finally {
    transport.close(true)
  }
}

/** Without its own hint when nobody is seen to hold the home: then the log says more. */
function tooSlow(folder: RunFolder, afterMs: number, isSilent: boolean): CraikError {
  if (isSilent) return silent(folder, afterMs)
  const pid = runningLockOwner(folder)
  const what = pid === undefined ? 'the supervisor' : `the supervisor (pid ${pid})`
  const hint = pid === undefined ? undefined : endIt(folder)
  return notStarted(folder, `${what} was not ready after ${afterMs / 1000} s`, { slow: true }, hint)
}

function silent(folder: RunFolder, afterMs: number): CraikError {
  return new CraikError(
    'supervisor_unreachable',
    `the supervisor accepts connections but did not answer for ${afterMs / 1000} s`,
    { hint: endIt(folder), details: { slow: true } },
  )
}

function endIt(folder: RunFolder): string {
  return `end it (sandboxes keep running):  kill -9 ${runningLockOwner(folder) ?? 'PID'}`
}

/** What a person wrote into a file is theirs to mend: told in its own words, as any other command tells it. */
function startFailure(folder: RunFolder, exitCode: number): CraikError {
  const log = lastLines(folder.log, SHOWN_LINES)
  const at = log.findLastIndex((line) => line.startsWith(SAID))
  if (exitCode !== ERRORS.invalid_config.exit || at === -1)
    return notStarted(folder, `the supervisor ended with exit code ${exitCode}`)
  const hint = log[at + 1]?.trim()
  return new CraikError('invalid_config', log[at]!.slice(SAID.length), { ...(hint && { hint }) })
}

function notStarted(
  folder: RunFolder,
  what: string,
  details: { readonly slow?: true } = {},
  hint?: string,
): CraikError {
  const log = lastLines(folder.log, SHOWN_LINES)
  return new CraikError('supervisor_unreachable', [what, ...log].join(' · '), {
    details: { log, ...details },
    ...(hint !== undefined && { hint }),
  })
}
