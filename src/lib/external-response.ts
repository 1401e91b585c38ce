/** Parses responses of servers that are not part of Craik, and describes their failures. */

/** Returns `undefined` when the text is not JSON. */
export function tryParseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Returns only the code or name of the error, because the message of a failed request can contain anything. */
export function codeOfFailure(error: unknown): string {
  const { code, name } = error as { readonly code?: unknown; readonly name?: unknown }
  return typeof code === 'string' ? code : String(name)
}
