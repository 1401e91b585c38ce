/** What a receipt says, read from its line. */
import type { Receipt } from '../../receipts/schema.ts'

/** Undefined for a line that was changed so much that it is no receipt any more: it says nothing. */
export function bodyOf(line: string): Receipt['body'] | undefined {
  try {
    const { body } = JSON.parse(line) as Receipt
    return typeof body.id === 'string' &&
      typeof body.capability === 'string' &&
      typeof body.links === 'object' &&
      body.links !== null
      ? body
      : undefined
  } catch {
    return undefined
  }
}
