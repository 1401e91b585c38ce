/**
 * Which logins their issuers do not renew any more, by what they held when that was said. It is kept in a private file beside
 * their locks, so that whoever looks next knows it without asking; another token in the login makes it void.
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
  /** Digest of both tokens. */
  tokens: z.string(),
  /** Whether its provider does not take it either, so that it is of no use for the time that it had left. */
  refused: z.boolean(),
})
type Note = z.infer<typeof note>

export class EndedLogins {
  readonly #home: Home
  readonly #asksAgain: boolean
  readonly #notes = new Map<string, Note | undefined>()

  /** `asksAgain`: what was noted before does not count. */
  constructor(home: Home, asksAgain: boolean) {
    this.#home = home
    this.#asksAgain = asksAgain
  }

  /** Undefined as long as nothing is known against it. */
  of(accountId: string, login: OAuthLogin): Pick<Note, 'refused'> | undefined {
    const path = this.#pathOf(accountId, login)
    // Read once: what others note later is found out here as well.
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

/** One that cannot be read or made sense of is none: then its issuer is asked. */
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
