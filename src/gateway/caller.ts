/**
 * The owner of a gateway connection. The gateway identifies it by the stream of the request, never by the request's
 * content.
 */

export interface GatewayCaller {
  readonly operator: string
  readonly policyEnvelopeId: string
  /** `undefined` for a program on the host, outside any sandbox. */
  readonly sandboxId: string | undefined
  readonly scope: { readonly session_id?: string; readonly task_id?: string; readonly run_id?: string }
  /** With `forward`, the sandbox holds the real credentials and can present them. */
  readonly credentials: 'broker' | 'forward' | 'none'
  /**
   * Returns the credential that this caller can present for an account. `undefined` when the caller has none for it.
   */
  readonly sentinelFor: (accountId: string) => string | undefined
  /** Returns the id of the grant for a capability on a target, if there is one. */
  readonly grantFor: (capability: string, operation: string, target: string) => Promise<string | undefined>
}
