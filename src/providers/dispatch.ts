/** The one path to a model: record, breaker, admission, adapter, settlement, receipts; and failover by rule. */
import { attempt } from './dispatch/attempt.ts'
import type { Unanswered } from './dispatch/hop.ts'
import { nextHop } from './dispatch/next-hop.ts'
import type { ModelCall, ModelOutcome, ProviderDeps } from './dispatch-types.ts'
import { loadFailoverPolicy } from './failover/failover-policy.ts'
import { findProvider, loadProviders } from './load-providers.ts'
import type { ProviderRecord } from './provider-record.ts'

/**
 * Calls a model. Denials and failures are outcomes; it throws only when the configuration is not valid, when the
 * store cannot be written, and what `onText` and `grantFor` throw. Whatever was begun is settled either way; where even
 * that cannot be written, what was held stays held until this process has ended.
 */
export async function callModel(place: ProviderDeps, call: ModelCall): Promise<ModelOutcome> {
  const records = await loadProviders(place.home)
  const policy = await loadFailoverPolicy(
    place.home,
    records.map(({ id }) => id),
  )
  const written: string[] = []
  const tried: string[] = []
  let record = findProvider(records, call.providerId)
  let model = call.model
  let before: { readonly record: ProviderRecord; readonly result: Unanswered } | undefined
  for (;;) {
    tried.push(record.id)
    const { model: _, ...rest } = call
    const result = await attempt({
      place,
      call: model === undefined ? rest : { ...rest, model },
      record,
      cooldownMs: policy?.cooldown_ms,
      written,
    })
    if (result.kind === 'answered') {
      const { kind: _, ...answer } = result
      return { outcome: 'answered', providerId: record.id, ...answer, receiptIds: written }
    }
    // Of a denial: the failure that the provider is being left alone for.
    const { failure } = result
    // A stand-in that may not be called leaves things as they were: the first provider's failure is what happened.
    if (failure === undefined && before !== undefined) {
      const more = `; ${record.id} cannot stand in: ${result.reason}`
      return outcomeOf(before.record, { ...before.result, hint: result.hint }, written, more)
    }
    const next =
      failure === undefined || policy === undefined
        ? undefined
        : await nextHop({ place, call, record, written }, policy, result, tried, call.signal.aborted)
    if (next === undefined) return outcomeOf(record, result, written)
    before = { record, result }
    record = findProvider(records, next)
    // The model that was asked for is one of the first provider's.
    model = undefined
  }
}

function outcomeOf(
  { id: providerId }: ProviderRecord,
  result: Unanswered,
  receiptIds: readonly string[],
  more = '',
): ModelOutcome {
  const reason = result.reason + more
  if (result.kind === 'denied') {
    const { by, rule, hint, retryAtMs, receiptId } = result
    const retry = retryAtMs === undefined ? {} : { retryAtMs }
    return { outcome: 'denied', providerId, by, rule, reason, hint, ...retry, receiptId, receiptIds }
  }
  const { failure, hint, receiptId } = result
  return { outcome: 'failed', providerId, failure, reason, hint, receiptId, receiptIds }
}
