/** Caches for results that depend on nothing but their input. */

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
