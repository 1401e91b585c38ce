/** Receipts of requests that were refused before policy was asked: each by itself, and floods as one with a count. */
import type { ReceiptLog } from '../receipts/log.ts'
import type { Caller } from './caller.ts'

/** Receipts of one caller that are written at once, and how fast that fills up again. */
const BURST = 20
const PER_SECOND = 1
/** Callers that are remembered. */
const CALLERS_MAX = 1000

interface Flow {
  left: number
  atMs: number
  /** Refused since the last receipt, without one. */
  untold: number
}

export interface RefusedRequest {
  /** Such as `gateway.malformed`. */
  readonly rule: string
  readonly target: string
}

export class RefusalReceipts {
  readonly #log: ReceiptLog
  readonly #report: (error: unknown) => void
  readonly #flows = new Map<string, Flow>()
  readonly #writing = new Set<Promise<unknown>>()

  constructor(log: ReceiptLog, report: (error: unknown) => void) {
    this.#log = log
    this.#report = report
  }

  /** A refusal needs no receipt to hold: nobody waits for this one. */
  write(caller: Caller, refused: RefusedRequest): void {
    const flow = this.#flow(caller)
    if (flow.left < 1) {
      flow.untold++
      return
    }
    flow.left--
    const { untold } = flow
    flow.untold = 0
    const written = this.#log
      .append({
        kind: 'denial',
        status: 'blocked',
        operator: caller.operator,
        capability: 'model.chat',
        operation: 'chat',
        target: refused.target,
        links: {
          ...caller.scope,
          ...(caller.sandboxId !== undefined && { sandbox_id: caller.sandboxId }),
          policy_envelope_id: caller.policyEnvelopeId,
        },
        decision: { effect: 'deny', rule: refused.rule, missing: [], replayable: false },
        metadata: { denied_kind: 'provider_action', ...(untold > 0 && { untold_refusals: untold }) },
      })
      .catch((error: unknown) => {
        flow.untold += untold + 1
        this.#report(error)
      })
      .finally(() => this.#writing.delete(written))
    this.#writing.add(written)
  }

  async close(): Promise<void> {
    await Promise.all(this.#writing)
  }

  #flow({ sandboxId, operator }: Caller): Flow {
    const key = sandboxId ?? operator
    const nowMs = performance.now()
    const known = this.#flows.get(key)
    if (known === undefined) {
      if (this.#flows.size >= CALLERS_MAX) this.#flows.delete(this.#flows.keys().next().value!)
      const flow = { left: BURST, atMs: nowMs, untold: 0 }
      this.#flows.set(key, flow)
      return flow
    }
    known.left = Math.min(BURST, known.left + ((nowMs - known.atMs) / 1000) * PER_SECOND)
    known.atMs = nowMs
    return known
  }
}
