/**
 * Remembers the logins that their issuers refuse to renew, by the digest of their tokens. A private file beside the
 * locks stores it, so that the next process knows without asking the issuer. Another token in the login makes the note
 * void.
 */
import { existsSync } from 'node:fs'
import { z } from 'zod'
import { CraikError } from '../errors.ts'
import { ensurePrivateFolder, readPrivateFile, writePrivateFile } from '../lib/private-files.ts'
import type { Home } from '../store/home.ts'
import type { Tokens } from './logins/format.ts'
import type { OAuthLogin } from './probe-result.ts'
import { refreshFile, tokenDigest } from './refresh/journal.ts'

const LABEL = 'note of a login that has ended'
const MAX_BYTES = 4096

const note = z.object({
  version: z.literal(1),
  /** The digest of both tokens. */
  tokens: z.string(),
  /** Whether the provider refuses it too, so that it is useless even before its expiry. */
  refused: z.boolean(),
})
type Note = z.infer<typeof note>

export class EndedLogins {
  readonly #home: Home
  readonly #asksAgain: boolean
  readonly #notes = new Map<string, Note | undefined>()

  /** `asksAgain` ignores earlier notes. */
  constructor(home: Home, asksAgain: boolean) {
    this.#home = home
    this.#asksAgain = asksAgain
  }

  /** Returns `undefined` when no note exists for these tokens. */
  of(accountId: string, login: OAuthLogin): Pick<Note, 'refused'> | undefined {
    const path = this.#pathOf(accountId, login)
    // The note is read once. A note that another process writes later is rediscovered by asking the issuer.
    if (!this.#notes.has(path)) this.#notes.set(path, this.#asksAgain ? undefined : readNote(path))
    const known = this.#notes.get(path)
    return known?.tokens === digestOfBoth(login.tokens) ? known : undefined
  }

  add(accountId: string, login: OAuthLogin, refused: boolean): void {
    if (this.of(accountId, login)?.refused === true) return
    const path = this.#pathOf(accountId, login)
    const added: Note = { version: 1, tokens: digestOfBoth(login.tokens), refused }
    this.#notes.set(path, added)
    ensurePrivateFolder(this.#home.secrets, 'secrets folder of this home')
    writePrivateFile(path, JSON.stringify(added), LABEL)
  }

  #pathOf(accountId: string, { vault }: OAuthLogin): string {
    return refreshFile(this.#home, accountId, vault.key, 'ended')
  }
}

function digestOfBoth({ accessToken, refreshToken }: Tokens): string {
  return tokenDigest(JSON.stringify([accessToken, refreshToken ?? null]))
}

/** An unreadable or invalid note counts as none, so the issuer is asked. */
function readNote(path: string): Note | undefined {
  if (!existsSync(path)) return undefined
  try {
    return note.parse(JSON.parse(readPrivateFile(path, MAX_BYTES, LABEL).toString()))
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof z.ZodError || error instanceof CraikError)
      return undefined
    throw error
  }
}
