/**
 * Redaction, as used by everything that persists or prints. Secrets are found by what they look like, by the name
 * they stand under and by what they decode to; counts, ids, references and placeholders stay readable.
 */
export { CleanJson } from './clean-json.ts'
export { REDACTED_LABEL } from './findings.ts'
export { dropPayloadKeys } from './payload-keys.ts'
export { createRedactStream } from './redact-stream.ts'
export { type RedactedText, redactText } from './redact-text.ts'
export { redactValue } from './redact-value.ts'
export { isSecretKey } from './secret-keys.ts'
