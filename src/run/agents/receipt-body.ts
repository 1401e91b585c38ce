/** Reads the body of a receipt from its line. */
import type { Receipt } from '../../receipts/schema.ts'

/** Returns `undefined` for a line that is not a receipt because it was changed. */
export function parseReceiptBody(line: string): Receipt['body'] | undefined {
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
