/** Prepares text from a sandbox for storage: plain lines of limited length, without secrets. */

/** Finds secrets and masks them. */
export type Redact = (text: string) => string

const ESCAPES =
  /\x1b(?:\[[0-?]{0,64}[ -/]{0,16}[@-~]|\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)|[PX^_][^\x1b]{0,4096}\x1b\\|[@-Z\\-_])/g
/** Everything that some program reads as the end of a line. */
const LINE_ENDS = /\r\n|[\r\v\f\x85\u2028\u2029]/g
/** Characters that are invisible or reverse the direction of text, except for tabs and line ends. */
const INVISIBLE =
  /[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g

/** Returns text that a terminal and an editor show in the same way. */
export function cleanText(text: string): string {
  return text.toWellFormed().replace(ESCAPES, '').replace(LINE_ENDS, '\n').replace(INVISIBLE, '')
}

/** The redaction reads this many characters more, so that it sees all of a secret at the point of truncation. */
const OVERLAP_CHARS = 8 * 1024

/** Cleans and redacts a text. Truncates it to `maxChars`, with a note about the omitted characters. */
export function truncateText(text: string, maxChars: number, redact: Redact): string {
  const redacted = redact(cleanText(text.slice(0, maxChars + OVERLAP_CHARS)))
  if (redacted.length <= maxChars && text.length <= maxChars + OVERLAP_CHARS) return redacted
  const stored = redacted.slice(0, maxChars).toWellFormed()
  const left = Math.max(1, text.length - maxChars)
  return `${stored}\n… (${left.toLocaleString('en')} characters omitted)`
}
