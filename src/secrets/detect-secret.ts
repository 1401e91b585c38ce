/** Whether the redactor would mask a part of this text: then it is not fit to be a name or an argument. */
import { redactValue } from '../receipts/redaction/redact.ts'

export function looksSecret(text: string | readonly string[]): boolean {
  return redactValue(text).paths.length > 0
}
