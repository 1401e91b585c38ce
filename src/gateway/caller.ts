/** Whose a connection to the gateway is: told by the stream that it came on, never by what it says of itself. */

export interface GatewayCaller {
  readonly operator: string
  readonly policyEnvelopeId: string
  /** Undefined: a program of this machine, outside any sandbox. */
  readonly sandboxId: string | undefined
  readonly scope: { readonly session_id?: string; readonly task_id?: string; readonly run_id?: string }
  /** `forward`: what runs there has the real ones, and may present them. */
  readonly credentials: 'broker' | 'forward' | 'none'
  /** What this caller may present as its credential for an account; undefined: nothing is its own, so nothing is. */
  readonly sentinelFor: (accountId: string) => string | undefined
  /** The grant for a capability on a target, if there is one. */
  readonly grantFor: (capability: string, operation: string, target: string) => Promise<string | undefined>
}
