/**
 * Redaction, which Craik applies before it stores or prints text. It finds secrets by their shape, by their name and by
 * their decoded content. Counts, ids, references and placeholders stay readable.
 */
export { CleanJson } from './clean-json.ts'
export { REDACTED_LABEL } from './findings.ts'
export { dropPayloadKeys } from './payload-keys.ts'
export { createRedactStream } from './redact-stream.ts'
export { type RedactedText, redactText } from './redact-text.ts'
export { redactValue } from './redact-value.ts'
export { isSecretKey } from './secret-keys.ts'
