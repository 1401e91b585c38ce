/** The findings of rules, and how they become masked text. */

export const REDACTED_LABEL = '[REDACTED]'

/** A half-open range of the scanned text that must not be visible. */
export interface SecretFinding {
  readonly start: number
  readonly end: number
  readonly label: string
}

export type ReportFinding = (start: number, end: number, label: string) => void

/** Sorts findings, joins those that overlap or touch, and drops those that are already masked. */
export function mergeFindings(text: string, findings: readonly SecretFinding[]): readonly SecretFinding[] {
  const sorted = findings.toSorted((a, b) => a.start - b.start || a.end - b.end)
  const merged: SecretFinding[] = []
  for (const next of sorted) {
    const last = merged.at(-1)
    if (last === undefined || next.start > last.end) merged.push(next)
    else if (next.end > last.end) merged[merged.length - 1] = { ...last, end: next.end }
  }
  return merged.filter(
    ({ start, end }) =>
      end > start && !(end - start === REDACTED_LABEL.length && text.startsWith(REDACTED_LABEL, start)),
  )
}

/** Returns the text from `from` to `to` with every merged finding replaced by the label. */
export function maskRange(text: string, merged: readonly SecretFinding[], from: number, to: number): string {
  let out = ''
  let at = from
  for (const { start, end } of merged) {
    if (end <= at) continue
    if (start >= to) break
    out += text.slice(at, Math.max(at, start)) + REDACTED_LABEL
    at = end
  }
  return at < to ? out + text.slice(at, to) : out
}
