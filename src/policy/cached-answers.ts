/** Remembers what a policy answered: agents ask the same few questions again and again, and only the time differs. */
import type { CedarRequest, CedarVerdict } from './cedar.ts'

const REMEMBERED_MAX = 1024

/** An answer is a function of the policy and the question, so it can be given again; one that failed is asked anew. */
export function cacheAnswers(
  decide: (request: CedarRequest) => CedarVerdict,
): (request: CedarRequest) => CedarVerdict {
  const answers = new Map<string, CedarVerdict>()
  return (request) => {
    const { operator, capability, target, context } = request
    const { now_ms: _, ...timeless } = context
    const question = JSON.stringify([operator, capability, target, timeless])
    const known = answers.get(question)
    if (known !== undefined) return known
    const answer = decide(request)
    if (answer.failed) return answer
    if (answers.size >= REMEMBERED_MAX) answers.clear()
    answers.set(question, answer)
    return answer
  }
}

/**
 * Whether a policy, as the engine spells it in JSON, can tell one moment from another: it names the time, or takes
 * the context as a whole.
 */
export function readsTime(policy: unknown): boolean {
  if (typeof policy !== 'object' || policy === null) return false
  if (Array.isArray(policy)) return policy.some(readsTime)
  if ((policy as { Var?: unknown }).Var === 'context') return true
  return Object.entries(policy).some(([name, part]) =>
    (name === '.' || name === 'has') && isOfContext(part) ? part.attr === 'now_ms' : readsTime(part),
  )
}

/** `context.attr` and `context has attr`, and nothing else. */
function isOfContext(part: unknown): part is { readonly attr: string } {
  if (typeof part !== 'object' || part === null || Object.keys(part).length !== 2) return false
  const { left, attr } = part as { left?: { Var?: unknown }; attr?: unknown }
  return left?.Var === 'context' && Object.keys(left).length === 1 && typeof attr === 'string'
}
