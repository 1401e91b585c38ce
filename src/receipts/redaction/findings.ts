/** What a rule reports, and how reports become masked text. */

export const LABEL = '[REDACTED]'

/** A half-open range of the scanned text that must not be shown. */
export interface Finding {
  readonly start: number
  readonly end: number
  readonly label: string
}

export type Report = (start: number, end: number, label: string) => void

/** Sorts findings, joins the ones that overlap or touch, and drops what is masked already. */
export function mergeFindings(text: string, findings: readonly Finding[]): readonly Finding[] {
  const sorted = findings.toSorted((a, b) => a.start - b.start || a.end - b.end)
  const merged: Finding[] = []
  for (const next of sorted) {
    const last = merged.at(-1)
    if (last === undefined || next.start > last.end) merged.push(next)
    else if (next.end > last.end) merged[merged.length - 1] = { ...last, end: next.end }
  }
  return merged.filter(
    ({ start, end }) => end > start && !(end - start === LABEL.length && text.startsWith(LABEL, start)),
  )
}

/** The text from `from` to `to` with every merged finding replaced by the label. */
export function maskRange(text: string, merged: readonly Finding[], from: number, to: number): string {
  let out = ''
  let at = from
  for (const { start, end } of merged) {
    if (end <= at) continue
    if (start >= to) break
    out += text.slice(at, Math.max(at, start)) + LABEL
    at = end
  }
  return at < to ? out + text.slice(at, to) : out
}
