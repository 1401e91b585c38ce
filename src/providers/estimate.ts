/** Estimates tokens from bytes, for providers that report none. Both estimates err on the high side. */

/** No tokenizer creates more tokens than there are bytes. Holds count input in the same way. */
export function inputTokensAtMost(bytes: number): number {
  return bytes
}

/** English has about four bytes per token, Chinese about three. */
const BYTES_PER_WRITTEN_TOKEN = 3

export function estimateOutputTokens(bytes: number): number {
  return Math.ceil(bytes / BYTES_PER_WRITTEN_TOKEN)
}
