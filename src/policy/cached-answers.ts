/** Caches a policy's answers: agents repeat the same few requests, and only the time differs. */
import type { CedarRequest, CedarVerdict } from './cedar.ts'

const REMEMBERED_MAX = 1024

/**
 * Returns a `decide` that caches its answers, because an answer depends only on the policy and the request. A failed
 * answer is not cached.
 */
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
 * Returns whether a policy, in the engine's JSON, depends on the time: it names `now_ms`, or uses the context as a
 * whole.
 */
export function readsTime(policy: unknown): boolean {
  if (typeof policy !== 'object' || policy === null) return false
  if (Array.isArray(policy)) return policy.some(readsTime)
  if ((policy as { Var?: unknown }).Var === 'context') return true
  return Object.entries(policy).some(([name, part]) =>
    (name === '.' || name === 'has') && isOfContext(part) ? part.attr === 'now_ms' : readsTime(part),
  )
}

/** Matches exactly `context.attr` and `context has attr`. */
function isOfContext(part: unknown): part is { readonly attr: string } {
  if (typeof part !== 'object' || part === null || Object.keys(part).length !== 2) return false
  const { left, attr } = part as { left?: { Var?: unknown }; attr?: unknown }
  return left?.Var === 'context' && Object.keys(left).length === 1 && typeof attr === 'string'
}
