/** Tokens as far as bytes tell, where a provider does not. Both lean towards counting more. */

/** No tokenizer makes more tokens than there are bytes; holds count input in the same way. */
export function inputTokensAtMost(bytes: number): number {
  return bytes
}

/** English has about four, Chinese about three. */
const BYTES_PER_WRITTEN_TOKEN = 3

export function writtenTokens(bytes: number): number {
  return Math.ceil(bytes / BYTES_PER_WRITTEN_TOKEN)
}
