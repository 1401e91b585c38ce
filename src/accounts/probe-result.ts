/** The input of a probe and its results. */
import type { Account } from './account.ts'
import type { LoginFormat, Tokens } from './logins/format.ts'
import type { Overrides } from './overrides.ts'
import type { Vault } from './vaults/vault.ts'

/** Everything that a probe can read from the host. The caller passes it in. */
export interface HostEnvironment {
  /** The user's home folder, where the programs store their logins. */
  readonly userHome: string
  readonly environment: NodeJS.ProcessEnv
  /** Returns the host folders that sandboxes can write. Craik executes no program in them. */
  readonly mounted: () => Promise<readonly string[]>
  readonly platform: NodeJS.Platform
  readonly overrides: Overrides
  readonly nowMs: () => number
}

export interface Probe {
  /** The account's id, or the part of its accounts' ids before the slash. */
  readonly name: string
  /**
   * Cheap to compute, and different whenever `probe` could return something else. `undefined` when that is unknown:
   * then probe each time.
   */
  stamp(hostEnvironment: HostEnvironment): Promise<string | undefined>
  /** Returns the searched locations, for display. */
  searchedLocations(hostEnvironment: HostEnvironment): readonly string[]
  /** Returns an empty list when nothing is found. It throws only when it is aborted. */
  probe(hostEnvironment: HostEnvironment, until: AbortSignal): Promise<readonly ProbeResult[]>
}

export type ProbeResult = Found | ProbeProblem

export interface Found {
  readonly account: Account
  readonly login: OAuthLogin | KeyLogin
}

/** A login that its program refreshes, at one location and in the program's own format. */
export interface OAuthLogin {
  readonly kind: 'oauth'
  readonly vault: Vault
  readonly format: LoginFormat
  /** The locks that the program itself takes while it refreshes. Empty if it takes none. */
  readonly locks: readonly ProgramLock[]
  /** The tokens at the time of the probe. */
  readonly tokens: Tokens
}

/** A lock folder. Its holder counts as dead when the folder's mtime is older than `staleMs`. */
export interface ProgramLock {
  readonly path: string
  readonly staleMs: number
}

/** A credential that is used unchanged. */
interface KeyLogin {
  readonly kind: 'key'
  /** Throws `unavailable` when the value is gone. */
  read(until: AbortSignal): Promise<string>
  headers(value: string): Readonly<Record<string, string>>
  /** The file that contains it, if it belongs to a program. */
  readonly vault?: Vault
}

/** The one-line reason why Craik does not use a possible login. It repeats nothing of the content. */
export interface ProbeProblem {
  readonly id: string
  readonly source: string
  readonly problem: string
  readonly hint: string
  /** The login is valid, but its issuer refuses to renew it. */
  readonly ended?: true
}

export function isProbeProblem(finding: ProbeResult): finding is ProbeProblem {
  return 'problem' in finding
}
