/** Masks the secrets in a text. */
import { findSecrets, mayHoldSecret } from './find-secrets.ts'
import { maskRange, mergeFindings, type SecretFinding } from './findings.ts'

/** Masking can bring a key and a half-masked value together. A few passes reach a stable result. */
const PASSES_MAX = 8

export interface RedactedText {
  readonly text: string
  /** The names of the rules that matched, sorted, without duplicates. */
  readonly labels: string[]
}

/** Replaces every secret with the label. Redacting the result again changes nothing. */
export function redactText(text: string): RedactedText {
  return redactBetween('', text, '')
}

/** Redacts a part of a line. The text before and after it is read but not returned. */
export function redactBetween(before: string, text: string, after: string): RedactedText {
  if (!mayHoldSecret(before + text + after)) return { text, labels: [] }
  let current = text
  const labels = new Set<string>()
  for (let pass = 0; pass < PASSES_MAX; pass++) {
    const whole = before + current + after
    const [from, to] = [before.length, before.length + current.length]
    const isInside = ({ start, end }: SecretFinding) => end > from && start < to
    const findings = findSecrets(whole)
    const merged = mergeFindings(whole, findings).filter(isInside)
    const masked = merged.length === 0 ? current : maskRange(whole, merged, from, to)
    if (masked === current) break
    for (const finding of findings) if (isInside(finding)) labels.add(finding.label)
    current = masked
  }
  return { text: current, labels: [...labels].sort() }
}
