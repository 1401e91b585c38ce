/** Text from inside a sandbox, made fit to be kept: plain lines, without secrets, not endless. */

/** Finds secrets and masks them. */
export type Redact = (text: string) => string

const ESCAPES =
  /\x1b(?:\[[0-?]{0,64}[ -/]{0,16}[@-~]|\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)|[PX^_][^\x1b]{0,4096}\x1b\\|[@-Z\\-_])/g
/** Everything that some reader takes for the end of a line. */
const LINE_ENDS = /\r\n|[\r\v\f\x85\u2028\u2029]/g
/** What is invisible or turns the direction of text around, but for tabs and line ends. */
const INVISIBLE =
  /[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g

/** As a terminal and an editor show it alike. */
export function cleanText(text: string): string {
  return text.toWellFormed().replace(ESCAPES, '').replace(LINE_ENDS, '\n').replace(INVISIBLE, '')
}

/** So much more is read, so that a secret across the cut is seen whole. */
const OVERLAP_CHARS = 8 * 1024

/** Cleaned, redacted, and cut where it is longer than `maxChars`, which it then says. */
export function truncateText(text: string, maxChars: number, redact: Redact): string {
  const redacted = redact(cleanText(text.slice(0, maxChars + OVERLAP_CHARS)))
  if (redacted.length <= maxChars && text.length <= maxChars + OVERLAP_CHARS) return redacted
  const stored = redacted.slice(0, maxChars).toWellFormed()
  const left = Math.max(1, text.length - maxChars)
  return `${stored}\n… (${left.toLocaleString('en')} characters omitted)`
}
