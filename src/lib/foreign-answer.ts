/** What servers of others answer, and how their failing is told. */

/** Undefined when it is no JSON. */
export function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Its code alone: what the message of a failed request holds is not known. */
export function codeOfFailure(error: unknown): string {
  const { code, name } = error as { readonly code?: unknown; readonly name?: unknown }
  return typeof code === 'string' ? code : String(name)
}
