/** Detects text that the redactor would mask in part. Such text must not be a name or an argument. */
import { redactValue } from '../receipts/redaction/redact.ts'

export function looksSecret(text: string | readonly string[]): boolean {
  return redactValue(text).paths.length > 0
}
