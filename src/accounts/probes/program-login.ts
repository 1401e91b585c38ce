/**
 * Finds the login of a program: at the first location that contains one, with a one-line problem for each unreadable
 * location.
 */
import { delay } from '../../lib/delay.ts'
import type { Account } from '../account.ts'
import { parseLoginFile } from '../logins/format.ts'
import type { HostEnvironment, OAuthLogin, ProbeResult } from '../probe-result.ts'
import { type Vault, VaultProblem } from '../vaults/vault.ts'

/** A program that writes its file in place leaves it incomplete for about this long. */
const REWRITE_MS = 50
const REWRITE_TRIES = 3

export interface ProgramLogin {
  readonly id: string
  readonly family: Account['family']
  readonly baseUrl: string
  readonly searchedLocations: readonly Vault[]
  readonly format: OAuthLogin['format']
  readonly locks: OAuthLogin['locks']
}

export async function probeProgram(
  { id, family, baseUrl, searchedLocations: places, format, locks }: ProgramLogin,
  { overrides }: HostEnvironment,
  until: AbortSignal,
): Promise<readonly ProbeResult[]> {
  const findings: ProbeResult[] = []
  for (const vault of places) {
    const seen = await readUntilSettled(id, vault, until, async () => {
      const snapshot = await vault.read(until)
      return snapshot && parseLoginFile(format, snapshot.text, vault.source)
    })
    if (seen === undefined) continue
    if ('problem' in seen) {
      findings.push(seen)
      continue
    }
    const { expiresAtMs, who, plan, scopes } = seen.tokens
    const account: Account = {
      id,
      family,
      kind: 'oauth',
      source: vault.source,
      expiresAtMs,
      who,
      billing: 'subscription',
      baseUrl: overrides[id]?.base_url ?? baseUrl,
      ...(plan !== undefined && { plan }),
      ...(scopes !== undefined && { scopes }),
    }
    return [...findings, { account, login: { kind: 'oauth', vault, format, locks, tokens: seen.tokens } }]
  }
  return findings
}

/**
 * Returns the result of `read`. A problem is returned only if it persists, because a program may be writing the file.
 */
export async function readUntilSettled<T>(
  id: string,
  { source }: Pick<Vault, 'source'>,
  until: AbortSignal,
  read: () => Promise<T>,
): Promise<T | (ProbeResult & { readonly problem: string })> {
  for (let tries = 1; ; tries++) {
    try {
      return await read()
    } catch (error) {
      if (!(error instanceof VaultProblem)) throw error
      if (tries >= REWRITE_TRIES) return { id, source, problem: error.message, hint: error.hint }
      await delay(REWRITE_MS, until)
    }
  }
}
