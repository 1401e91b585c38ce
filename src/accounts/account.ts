/** A login that was found on this machine: what is known of it without its value. */

/** Who is paid, or asked: the other end of a credential. */
export const ACCOUNT_FAMILIES = ['anthropic', 'openai', 'gemini', 'openrouter', 'kimi', 'github'] as const
export type AccountFamily = (typeof ACCOUNT_FAMILIES)[number]

export interface Account {
  /** Such as `claude-code`, `codex`, `gemini`, `opencode/openrouter`, `kimi`, `github`, `secret/OPENAI_API_KEY`, `env/OPENAI_API_KEY`. */
  readonly id: string
  readonly family: AccountFamily
  readonly kind: 'oauth' | 'api_key'
  /** For a person: where it was found, such as `~/.claude/.credentials.json` or `macOS keychain`. */
  readonly source: string
  /** Undefined: it does not say, or never. */
  readonly expiresAtMs: number | undefined
  /** Whose it is, as far as the file itself says: an address or an account's name. */
  readonly who: string | undefined
  /**
   * The only place that its credential is ever sent to, with its version segment: `https://api.anthropic.com/v1`. What
   * follows it is the path within that version (`/messages`); for Code Assist the base ends in `v1internal`, and what follows
   * begins with a colon (`:streamGenerateContent`).
   */
  readonly baseUrl: string
  readonly billing: 'metered' | 'subscription'
  /** GitHub alone: where git itself goes, with the credential in its basic form (`asBasic`). */
  readonly gitBaseUrl?: string
  /** What the subscription is called, where the file says so: a program inside chooses its models by it. */
  readonly plan?: string
  readonly scopes?: readonly string[]
}

/** What goes into one upstream request. It is used and dropped, never kept, logged or returned to a caller. */
export interface Credential {
  readonly accountId: string
  /** The account's own at this moment: config may have changed since the account was listed. */
  readonly baseUrl: string
  /** Lower-case names. They replace whatever the client sent under these names. */
  readonly headers: Readonly<Record<string, string>>
  /** Added to the comma-separated values that the client sent, such as `anthropic-beta`. */
  readonly mergedHeaders: Readonly<Record<string, string>>
  /** Changes with every rotation; tells `refused` which one was turned down. */
  readonly generation: string
}

export interface Broker {
  /** In order of preference for each family; what is broken or empty is not among them. */
  accounts(until: AbortSignal): Promise<readonly Account[]>
  /** Refreshed before it expires. `unavailable` when the login is gone: a logout ends access at once. */
  credential(accountId: string, until: AbortSignal): Promise<Credential>
  /** The upstream answered 401 to this one: a newer one, or undefined when there is none to be had. */
  refused(accountId: string, generation: string, until: AbortSignal): Promise<Credential | undefined>
}

const BEARER = 'Bearer '

/** The same credential as git sends it over HTTPS: GitHub takes its tokens as a password, whatever the user is called. */
export function asBasic(credential: Credential): Credential {
  const { authorization, ...others } = credential.headers
  if (!authorization?.startsWith(BEARER)) return credential
  const pair = Buffer.from(`x-access-token:${authorization.slice(BEARER.length)}`)
  return { ...credential, headers: { ...others, authorization: `Basic ${pair.toString('base64')}` } }
}
