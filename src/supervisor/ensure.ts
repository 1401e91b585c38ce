/** Finds the supervisor of a home, and starts one when there is none. */
import { existsSync, lstatSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { CraikError } from '../errors.ts'
import { ensurePrivateFolder } from '../lib/private-files.ts'
import type { VersionBody } from '../operator/api/bodies.ts'
import { API_VERSION } from '../operator/api/names.ts'
import { type ApiClient, createClient } from '../sdk/client.ts'
import { type Endpoint, jsonOf, LostConnection, Transport } from '../sdk/transport.ts'
import type { Home } from '../store/home.ts'
import { type Build, buildOf, compareBuilds } from './build.ts'
import { lastLines } from './log-tail.ts'
import { ensureRunFolder, holderOf, type RunFolder, readToken, runFolder } from './run-folder.ts'
import { type Starting, startSupervisor } from './start.ts'

export interface SupervisorPlace {
  readonly home: Home
  /** The program itself: the supervisor is another run of it. */
  readonly mainFile: string
  readonly environment: NodeJS.ProcessEnv
  /** Of `supervisor run`, when it is started here. */
  readonly runFlags?: readonly string[]
  readonly signal?: AbortSignal
}

/** From nothing to an answer; for taking over what is there; for a single answer. */
const START_MS = 10_000
const RECOVER_MS = 60_000
const ANSWER_MS = 5_000
const POLL_MS = 15
const SHOWN_LINES = 3

/** A client of this home's supervisor, which is found or started now, and again whenever it goes away. */
export async function connectSupervisor(place: SupervisorPlace): Promise<ApiClient> {
  const mine = buildOf(place.mainFile)
  let first: Endpoint | undefined = await ensureSupervisor(place, mine, place.signal)
  return createClient({
    connect: async (until) => {
      const found = first
      first = undefined
      return found ?? ensureSupervisor(place, mine, until)
    },
  })
}

/** A client of the supervisor that runs now; undefined when none does. Starts nothing, and makes no folder. */
export async function findSupervisor(
  place: Pick<SupervisorPlace, 'home' | 'signal'>,
): Promise<ApiClient | undefined> {
  // In a home of somebody else's nothing can be seen, which is not the same as nothing there.
  if (isThere(place.home)) ensurePrivateFolder(place.home.root, 'home folder')
  if (!existsSync(runFolder(place.home).socket)) return undefined
  const folder = ensureRunFolder(place.home)
  const found = await ask(folder, place.signal)
  if (found === undefined) return undefined
  const endpoint = { socketPath: folder.socket, token: found.token }
  return createClient({ connect: async () => endpoint, patienceMs: 0 })
}

function isThere({ root }: Home): boolean {
  try {
    return lstatSync(root, { throwIfNoEntry: false }) !== undefined
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    throw new CraikError('home_unwritable', `cannot look into the home folder (${code})`, {
      hint: 'run as the user whose home it is, or set CRAIK_HOME to a folder of your own',
      cause,
    })
  }
}

async function ensureSupervisor(
  place: SupervisorPlace,
  mine: Build,
  signal: AbortSignal | undefined,
): Promise<Endpoint> {
  const folder = ensureRunFolder(place.home)
  const began = performance.now()
  let patienceMs = START_MS
  let starting: Starting | undefined
  for (;;) {
    signal?.throwIfAborted()
    const found = await ask(folder, signal)
    if (found === undefined) {
      // One that ended without a fault lost to another, which may be gone again by now, or was killed.
      if (starting === undefined || starting.exitCode() === 0) starting = startSupervisor(place, folder)
    } else if (!isUsable(found.version, mine)) await drain(folder, found.token, signal)
    else if (found.version.ready) return { socketPath: folder.socket, token: found.token }
    else patienceMs = RECOVER_MS
    const exitCode = starting?.exitCode() ?? 0
    if (exitCode !== 0) throw notStarted(folder, `the supervisor ended with exit code ${exitCode}`)
    if (performance.now() - began > patienceMs)
      throw notStarted(folder, `the supervisor was not ready after ${patienceMs / 1000} s`, { slow: true })
    await sleep(POLL_MS, undefined, signal && { signal })
  }
}

/** One of other code is replaced, unless it is newer. A newer one that speaks the same API serves as well. */
function isUsable(theirs: VersionBody, mine: Build): boolean {
  if (theirs.build === mine.build) return true
  if (compareBuilds(mine, theirs) > 0) return false
  if (theirs.api === API_VERSION) return true
  throw new CraikError(
    'version_mismatch',
    `the supervisor of this home is newer (${theirs.version}) than this command (${mine.version})`,
    { hint: 'use the newer craik, or stop its supervisor first:  craik supervisor stop' },
  )
}

interface Found {
  readonly version: VersionBody
  readonly token: string
}

/** Undefined: nobody is there, or whoever is there is leaving. */
async function ask(folder: RunFolder, signal: AbortSignal | undefined): Promise<Found | undefined> {
  if (!existsSync(folder.token)) return undefined
  const token = readToken(folder)
  const version = await request<VersionBody>(folder, token, 'GET', '/api/version', signal)
  return version && { version, token }
}

/** It leaves; sandboxes go on, and what was streaming is resumed from the next one. */
async function drain(folder: RunFolder, token: string, signal: AbortSignal | undefined): Promise<void> {
  await request(folder, token, 'POST', '/api/supervisor/drain', signal)
}

async function request<T>(
  folder: RunFolder,
  token: string,
  method: 'GET' | 'POST',
  path: string,
  signal: AbortSignal | undefined,
): Promise<T | undefined> {
  const transport = new Transport({ socketPath: folder.socket, token })
  const limit = AbortSignal.timeout(ANSWER_MS)
  const until = signal ? AbortSignal.any([signal, limit]) : limit
  try {
    return await jsonOf<T>(await transport.send({ method, path, signal: until }))
  } catch (error) {
    signal?.throwIfAborted()
    if (limit.aborted) throw silent(folder)
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

function silent(folder: RunFolder): CraikError {
  return new CraikError(
    'supervisor_unreachable',
    `the supervisor accepts connections and answers nothing for ${ANSWER_MS / 1000} s`,
    { hint: `end it, sandboxes go on:  kill -9 ${holderOf(folder) ?? 'PID'}`, details: { slow: true } },
  )
}

function notStarted(folder: RunFolder, what: string, details: { readonly slow?: true } = {}): CraikError {
  const log = lastLines(folder.log, SHOWN_LINES)
  return new CraikError('supervisor_unreachable', [what, ...log].join(' · '), {
    details: { log, ...details },
  })
}
