/** Answers that depend on nothing but the question, given again without being worked out again. */

/** The questions are strings, and so many of them are kept at most. */
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

/** What is worked out when it is first asked for. */
export function lazy<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined
  return () => {
    made ??= { value: make() }
    return made.value
  }
}
