/** What no rule opens, and what a person does in its place. */
import { notPublic } from '../../lib/public-address.ts'
import type { Host } from './names.ts'

export interface NeverAllowed {
  readonly reason: string
  readonly hint: string
}

/** Why no rule can name this host, decided without a lookup; undefined when one can. `below`: names below it are meant. */
export function neverAllowed({ host, form }: Host, below = false): NeverAllowed | undefined {
  const problem = form === 'name' ? namedProblem(host) : notPublic(host)
  if (problem !== undefined) return { reason: `its address is ${problem}`, hint: insteadOf(problem) }
  if (form !== 'name' || host.includes('.') || below) return undefined
  return {
    reason: 'a name without a dot belongs to a local network',
    hint: `use the full name:  ${host}.example.com`,
  }
}

/** By why an address is not of the public internet. */
export function insteadOf(problem: string): string {
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

/** Names that stand for such an address on every machine; undefined: any other, whose address its lookup tells. */
function namedProblem(name: string): string | undefined {
  if (/(?:^|\.)localhost$/.test(name)) return 'loopback'
  if (name === 'metadata.google.internal') return 'metadata'
  return undefined
}

/** Whether a name is of a kind that local networks use among themselves. */
export function isLocalName(name: string): boolean {
  return /\.(?:internal|local|localdomain|lan|home\.arpa|intranet|corp|private)$/.test(name)
}
