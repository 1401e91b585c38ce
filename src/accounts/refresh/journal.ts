/**
 * The issuer's response, in a private file until it is in the login's own file. Without the journal, a process killed
 * in between would lose the only copy of a rotated token.
 */
import { createHash } from 'node:crypto'
import { existsSync, unlinkSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { ensurePrivateFolder, readPrivateFile, writePrivateFile } from '../../lib/private-files.ts'
import type { Home } from '../../store/home.ts'
import { issuerAnswer } from '../logins/format.ts'

const MAX_BYTES = 512 * 1024

const entry = z.object({
  version: z.literal(1),
  /**
   * The digest of the refresh token that the response replaces. While the login still has that token, the response
   * applies to it.
   */
  used: z.string(),
  /** The digest of the access token that the response replaces. */
  unwanted: z.string(),
  answeredAtMs: z.number(),
  answer: issuerAnswer,
})
export type JournalEntry = z.infer<typeof entry>

export function tokenDigest(token: string): string {
  return createHash('sha256').update(token).digest('hex')
}

/**
 * Returns the path of one of a login's files in the home. The name includes a digest of the vault key, so that two
 * logins never share a file.
 */
export function refreshFile(
  home: Home,
  accountId: string,
  vaultKey: string,
  ending: 'lock' | 'json' | 'ended',
): string {
  const where = createHash('sha256').update(vaultKey).digest('hex').slice(0, 12)
  return join(home.secrets, `refresh-${accountId.replace(/[^A-Za-z0-9]/g, '-')}-${where}.${ending}`)
}

export function hasJournal(path: string): boolean {
  return existsSync(path)
}

export function writeJournal(home: Home, path: string, content: Omit<JournalEntry, 'version'>): void {
  ensurePrivateFolder(home.secrets, 'secrets folder of this home')
  writePrivateFile(path, JSON.stringify({ version: 1, ...content }), 'journal of a refreshed login')
}

/** Returns `undefined` when there is no journal, or an invalid one, which is then removed. */
export function readJournal(path: string): JournalEntry | undefined {
  if (!existsSync(path)) return undefined
  try {
    return entry.parse(
      JSON.parse(readPrivateFile(path, MAX_BYTES, 'journal of a refreshed login').toString()),
    )
  } catch (error) {
    if (!(error instanceof SyntaxError || error instanceof z.ZodError)) throw error
    removeJournal(path)
    return undefined
  }
}

export function removeJournal(path: string): void {
  try {
    unlinkSync(path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
}
