/** What a probe looks at, and what it finds. */
import type { Account } from './account.ts'
import type { LoginFormat, Tokens } from './logins/format.ts'
import type { Overrides } from './overrides.ts'
import type { Vault } from './vaults/vault.ts'

/** Everything that a probe may look at, handed in. */
export interface HostEnvironment {
  /** The home folder of the person, where the programs keep their logins. */
  readonly userHome: string
  readonly environment: NodeJS.ProcessEnv
  /** Folders of the host that sandboxes can write: no program in them is executed. */
  readonly mounted: () => Promise<readonly string[]>
  readonly platform: NodeJS.Platform
  readonly overrides: Overrides
  readonly nowMs: () => number
}

export interface Probe {
  /** The account's id, or what its accounts' ids begin with. */
  readonly name: string
  /** Cheap, and another whenever `probe` might find something else. Undefined: that cannot be told, so look each time. */
  stamp(surroundings: HostEnvironment): Promise<string | undefined>
  /** Where it looks, for a person. */
  places(surroundings: HostEnvironment): readonly string[]
  /** Nothing there is an empty answer. It never throws for what it finds, only when it is stopped. */
  probe(surroundings: HostEnvironment, until: AbortSignal): Promise<readonly ProbeResult[]>
}

export type ProbeResult = Found | ProbeProblem

export interface Found {
  readonly account: Account
  readonly login: OAuthLogin | KeyLogin
}

/** A login of a program that refreshes it: in one place, in that program's own format. */
export interface OAuthLogin {
  readonly kind: 'oauth'
  readonly vault: Vault
  readonly format: LoginFormat
  /** What the program itself takes while it refreshes; empty where it has nothing of the kind. */
  readonly locks: readonly ProgramLock[]
  /** As it was when it was looked at. */
  readonly tokens: Tokens
}

/** A folder whose existence is the lock, and how long after its last sign of life its holder counts as dead. */
export interface ProgramLock {
  readonly path: string
  readonly staleMs: number
}

/** A value that is used as it is. */
interface KeyLogin {
  readonly kind: 'key'
  /** Throws `unavailable` when it cannot be had any more. */
  read(until: AbortSignal): Promise<string>
  headers(value: string): Readonly<Record<string, string>>
  /** The file that it is in, where it is one of a program. */
  readonly vault?: Vault
}

/** Why a login that seems to be there is not used: one line for a person, without anything from inside it. */
export interface ProbeProblem {
  readonly id: string
  readonly source: string
  readonly problem: string
  readonly hint: string
  /** It is sound, and its issuer does not renew it any more. */
  readonly ended?: true
}

export function isProbeProblem(finding: ProbeResult): finding is ProbeProblem {
  return 'problem' in finding
}
