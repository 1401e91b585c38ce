/** Caches for results that depend on nothing but their input, and for those that change only from failure to success. */

/** How long a failure is repeated, so that many callers in a row do not all compute it again. */
const FAILURE_MS = 5_000

/** Caches the results of a function of a string, at most `most` of them. */
export function memoize<T>(answer: (question: string) => T, most: number): (question: string) => T {
  const known = new Map<string, { readonly answer: T }>()
  return (question) => {
    const found = known.get(question)
    if (found !== undefined) return found.answer
    if (known.size >= most) known.clear()
    const fresh = { answer: answer(question) }
    known.set(question, fresh)
    return fresh.answer
  }
}

/** Returns a function that computes its value on the first call. */
export function lazy<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined
  return () => {
    made ??= { value: make() }
    return made.value
  }
}

/**
 * Returns a function that computes its value on the first call, and again some seconds after a value that
 * `isSuccess` refuses. An error is thrown to all callers that wait for the value, and not cached.
 */
export function cacheSuccess<T>(make: () => Promise<T>, isSuccess: (value: T) => boolean): () => Promise<T> {
  let cached: Promise<T> | undefined
  let endsMs = Number.POSITIVE_INFINITY
  const compute = async () => {
    try {
      const value = await make()
      if (!isSuccess(value)) endsMs = performance.now() + FAILURE_MS
      return value
    } catch (error) {
      cached = undefined
      throw error
    }
  }
  return () => {
    if (cached === undefined || performance.now() >= endsMs) {
      endsMs = Number.POSITIVE_INFINITY
      cached = compute()
    }
    return cached
  }
}
