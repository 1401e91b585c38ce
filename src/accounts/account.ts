/** A login that was found on this machine. It describes the login without its value. */

/** The vendor that a credential belongs to, which bills or answers its calls. */
export const ACCOUNT_FAMILIES = ['anthropic', 'openai', 'gemini', 'openrouter', 'kimi', 'github'] as const
export type AccountFamily = (typeof ACCOUNT_FAMILIES)[number]

export interface Account {
  /** Such as `claude-code`, `codex`, `gemini`, `opencode/openrouter`, `kimi`, `github`, `secret/OPENAI_API_KEY`, `env/OPENAI_API_KEY`. */
  readonly id: string
  readonly family: AccountFamily
  readonly kind: 'oauth' | 'api_key'
  /** Where the login was found, for display, such as `~/.claude/.credentials.json` or `macOS keychain`. */
  readonly source: string
  /** `undefined` when the login states no expiry, or never expires. */
  readonly expiresAtMs: number | undefined
  /** The account's owner as the file states it: an email address or an account name. */
  readonly who: string | undefined
  /**
   * The only address that its credential is ever sent to, with its version segment: `https://api.anthropic.com/v1`. The
   * rest of a URL is the path within that version (`/messages`). For Code Assist the base ends in `v1internal`, and the
   * rest begins with a colon (`:streamGenerateContent`).
   */
  readonly baseUrl: string
  readonly billing: 'metered' | 'subscription'
  /** GitHub only: the address that git uses, with the credential in its basic form (`asBasic`). */
  readonly gitBaseUrl?: string
  /** The subscription's name, if the file states it. A program in the sandbox chooses its models by it. */
  readonly plan?: string
  readonly scopes?: readonly string[]
}

/**
 * The credential for one upstream request. It is used once and dropped. Craik never stores it, logs it or returns it to
 * a caller.
 */
export interface Credential {
  readonly accountId: string
  /** The account's base URL at this moment. The config may have changed since the account was listed. */
  readonly baseUrl: string
  /** Header names in lower case. They replace the client's headers of the same names. */
  readonly headers: Readonly<Record<string, string>>
  /** Values that are added to the client's comma-separated ones, such as `anthropic-beta`. */
  readonly mergedHeaders: Readonly<Record<string, string>>
  /** Changes with every rotation. It tells `renewAfterRefusal` which credential was refused. */
  readonly generation: string
}

export interface Broker {
  /** Returns the accounts in order of preference for each family. Broken and empty logins are left out. */
  accounts(until: AbortSignal): Promise<readonly Account[]>
  /**
   * Returns the credential, refreshed before it expires. Throws `unavailable` when the login is gone: a logout ends
   * access at once.
   */
  credential(accountId: string, until: AbortSignal): Promise<Credential>
  /**
   * Called when the upstream answered 401 to this generation. Returns a newer credential, or `undefined` when none
   * exists.
   */
  renewAfterRefusal(
    accountId: string,
    generation: string,
    until: AbortSignal,
  ): Promise<Credential | undefined>
}

const BEARER = 'Bearer '

/**
 * Returns the credential in the form that git sends over HTTPS. GitHub accepts its tokens as a password, with any user
 * name.
 */
export function asBasic(credential: Credential): Credential {
  const { authorization, ...others } = credential.headers
  if (!authorization?.startsWith(BEARER)) return credential
  const pair = Buffer.from(`x-access-token:${authorization.slice(BEARER.length)}`)
  return { ...credential, headers: { ...others, authorization: `Basic ${pair.toString('base64')}` } }
}
