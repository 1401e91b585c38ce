/** Hosts that no rule can allow, and the alternative for each. */
import { nonPublicReason } from '../../lib/public-address.ts'
import type { Host } from './egress-destination.ts'

export interface NeverAllowed {
  readonly reason: string
  readonly hint: string
}

/**
 * Returns why no rule can name this host, decided without a lookup. `undefined` when a rule can. `below` means the
 * names below the host.
 */
export function findBlockedReason({ host, form }: Host, below = false): NeverAllowed | undefined {
  const problem = form === 'name' ? findNameProblem(host) : nonPublicReason(host)
  if (problem !== undefined) return { reason: `its address is ${problem}`, hint: suggestAlternative(problem) }
  if (form !== 'name' || host.includes('.') || below) return undefined
  return {
    reason: 'a name without a dot belongs to a local network',
    hint: `use the full name:  ${host}.example.com`,
  }
}

/** Returns the alternative, by the reason why an address is not public. */
export function suggestAlternative(problem: string): string {
  switch (problem) {
    case 'loopback':
    case 'unspecified':
      return 'in a sandbox, that is the sandbox itself and needs no rule; to reach its server from the host:  craik sandbox forward ID PORT'
    case 'link-local':
    case 'metadata':
      return 'no rule can allow it: cloud machines get credentials there; list the logins that sandboxes can use:  craik accounts'
    case 'private':
    case 'carrier-grade NAT':
    case 'not of the public internet':
      return 'sandboxes can reach only the public internet; copy files from a local network:  craik sandbox cp FILE ID:'
    default:
      return 'sandboxes can reach only the public internet'
  }
}

/**
 * Returns the problem of names that mean such an address on every machine. `undefined` for all others, which the lookup
 * decides.
 */
function findNameProblem(name: string): string | undefined {
  if (/(?:^|\.)localhost$/.test(name)) return 'loopback'
  if (name === 'metadata.google.internal') return 'metadata'
  return undefined
}

/** Returns whether a name has a suffix that local networks use. */
export function isLocalName(name: string): boolean {
  return /\.(?:internal|local|localdomain|lan|home\.arpa|intranet|corp|private)$/.test(name)
}
