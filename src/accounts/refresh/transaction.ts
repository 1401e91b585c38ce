/** One refresh of one login, from the locks to the file. It is safe against any concurrent change on the machine. */
import { setTimeout as sleep } from 'node:timers/promises'
import { type FileLock, takeFileLock } from '../../lib/file-lock.ts'
import { ensurePrivateFolder } from '../../lib/private-files.ts'
import type { Home } from '../../store/home.ts'
import { formatDocument, parseLoginFile } from '../logins/format.ts'
import type { HostEnvironment, OAuthLogin } from '../probe-result.ts'
import { VaultProblem } from '../vaults/vault.ts'
import { askIssuer } from './issuer.ts'
import {
  type JournalEntry,
  readJournal,
  refreshFile,
  removeJournal,
  tokenDigest,
  writeJournal,
} from './journal.ts'
import { takeProgramLocks } from './program-locks.ts'

export interface RefreshTask {
  readonly home: Home
  readonly accountId: string
  readonly login: OAuthLogin
  readonly hostEnvironment: HostEnvironment
  /**
   * The digest of the access token that is about to expire or was refused. If the login has another one, there is
   * nothing to do.
   */
  readonly unwanted: string
  /** Certificate authorities that replace the system's. */
  readonly authorities?: readonly string[] | undefined
}

export type RefreshOutcome =
  | { readonly outcome: 'refreshed' | 'adopted' | 'ended' | 'absent' }
  | { readonly outcome: 'failed'; readonly reason: string }

const LOCK_POLL_MS = 25
/** A program that takes no lock may already have a response and be about to write it. */
const ADOPT_TRIES = 10
const ADOPT_POLL_MS = 200
const WRITE_TRIES = 5

export async function refreshLogin(task: RefreshTask, until: AbortSignal): Promise<RefreshOutcome> {
  const { home, accountId, login } = task
  ensurePrivateFolder(home.secrets, 'secrets folder of this home')
  const ours = await waitForLock(refreshFile(home, accountId, login.vault.key, 'lock'), until)
  if (ours === undefined) return failedRefresh('another process is refreshing it, and has not finished')
  try {
    const theirs = await takeProgramLocks(login.locks, until)
    if (theirs === undefined) return failedRefresh('its own program is refreshing it, and has not finished')
    try {
      return await refreshWithLocks(task, until)
    } finally {
      await theirs.release()
    }
  } catch (error) {
    if (error instanceof VaultProblem) return failedRefresh(error.message)
    throw error
  } finally {
    ours.release()
  }
}

async function refreshWithLocks(task: RefreshTask, until: AbortSignal): Promise<RefreshOutcome> {
  const { home, accountId, login, hostEnvironment, unwanted } = task
  const { vault, format } = login
  const journal = refreshFile(home, accountId, vault.key, 'json')
  await completeInterrupted(login, journal, until)

  const seen = await readLogin(login, until)
  if (seen === undefined) return { outcome: 'absent' }
  const { tokens } = seen
  if (tokenDigest(tokens.accessToken) !== unwanted) return { outcome: 'adopted' }
  if (tokens.refreshToken === undefined) return { outcome: 'ended' }
  // A login that cannot be written must not be rotated.
  const unwritable = await vault.unwritable()
  if (unwritable !== undefined) return failedRefresh(unwritable)

  const { token_url, client_id } = hostEnvironment.overrides[accountId] ?? {}
  const { refreshToken } = tokens
  const body = format.request({ ...tokens, refreshToken }, client_id)
  const reply = await askIssuer(token_url ?? format.tokenUrl, body, task.authorities, until)
  if (reply.kind === 'failed') return failedRefresh(reply.reason)
  if (reply.kind === 'ended') return adoptOrEnd(login, refreshToken, until)

  const answeredAtMs = hostEnvironment.nowMs()
  const used = tokenDigest(refreshToken)
  const entry = { used, unwanted, answeredAtMs, answer: reply.answer }
  writeJournal(home, journal, entry)
  // From here on, the write cannot be aborted. If the process dies, the journal completes it.
  const written = await writeBack(login, entry, new AbortController().signal)
  removeJournal(journal)
  return { outcome: written ? 'refreshed' : 'adopted' }
}

/** Completes the refresh of a process that was killed. */
async function completeInterrupted(login: OAuthLogin, journal: string, until: AbortSignal): Promise<void> {
  const entry = readJournal(journal)
  if (entry === undefined) return
  await writeBack(login, entry, until)
  removeJournal(journal)
}

/**
 * Writes the response only if the login still has the refresh token that was used. Returns `false` when the login has
 * another one: a user logged in or out, or another program refreshed it.
 */
async function writeBack(
  { vault, format }: OAuthLogin,
  { used, unwanted, answer, answeredAtMs }: Omit<JournalEntry, 'version'>,
  until: AbortSignal,
): Promise<boolean> {
  for (let tries = 0; tries < WRITE_TRIES; tries++) {
    const snapshot = await vault.read(until)
    const login = snapshot && parseLoginFile(format, snapshot.text, vault.source)
    if (snapshot === undefined || login?.tokens.refreshToken === undefined) return false
    if (tokenDigest(login.tokens.refreshToken) !== used) return false
    const merged = format.merge(login.document, answer, answeredAtMs)
    // If the refresh token did not change, a program may have written another access token meanwhile. The one that
    // expires later is kept.
    const rotated = answer.refresh_token !== undefined && tokenDigest(answer.refresh_token) !== used
    const changed = tokenDigest(login.tokens.accessToken) !== unwanted
    if (!rotated && changed && isOlder(format.tokens(merged)?.expiresAtMs, login.tokens.expiresAtMs))
      return false
    if (await vault.replace(snapshot, formatDocument(merged, snapshot.text), until)) return true
  }
  throw new VaultProblem(`${vault.source} changes faster than it can be written`, 'try again')
}

function isOlder(expiresAtMs: number | undefined, thanMs: number | undefined): boolean {
  return expiresAtMs !== undefined && thanMs !== undefined && expiresAtMs < thanMs
}

async function adoptOrEnd(
  login: OAuthLogin,
  refreshToken: string,
  until: AbortSignal,
): Promise<RefreshOutcome> {
  for (let tries = 0; ; tries++) {
    const now = await readLogin(login, until)
    if (now === undefined) return { outcome: 'absent' }
    if (now.tokens.refreshToken !== refreshToken) return { outcome: 'adopted' }
    if (tries >= ADOPT_TRIES || until.aborted) return { outcome: 'ended' }
    await sleep(ADOPT_POLL_MS, undefined, { signal: until }).catch(() => {})
  }
}

async function readLogin({ vault, format }: OAuthLogin, until: AbortSignal) {
  const snapshot = await vault.read(until)
  return snapshot && parseLoginFile(format, snapshot.text, vault.source)
}

async function waitForLock(path: string, until: AbortSignal): Promise<FileLock | undefined> {
  for (;;) {
    const lock = takeFileLock(path, 'lock of a login that is refreshed')
    if (lock !== undefined || until.aborted) return lock
    await sleep(LOCK_POLL_MS, undefined, { signal: until }).catch(() => {})
  }
}

function failedRefresh(reason: string): RefreshOutcome {
  return { outcome: 'failed', reason }
}
