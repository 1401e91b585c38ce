/** Private keys that span lines: PEM of every kind, SSH2, PGP, PuTTY. */
import { alphabet, runStart } from './characters.ts'
import type { ReportFinding } from './findings.ts'

const BEGIN = /-{4,5} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}|Private-Lines: ?\d+/g
const END = /-{4,5} ?END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}|Private-MAC: ?[0-9A-Fa-f]+/g
/** The length of the longest end marker, so that one split across chunks is still found. */
const END_MARKER_MAX = 160

const LABEL_NAME = 'private_key'

function mayHoldPrivateKey(text: string): boolean {
  return text.includes('PRIVATE KEY') || text.includes('Private-Lines:') || text.includes('Private-MAC:')
}

/**
 * Reports key blocks. A block without an end reaches to the end of the text. An end without a beginning includes the
 * lines above it.
 */
export function findPrivateKeyBlocks(text: string, report: ReportFinding): void {
  if (!mayHoldPrivateKey(text)) return
  let begin = matchFrom(BEGIN, text, 0)
  let end = matchFrom(END, text, 0)
  let at = 0
  while (begin !== undefined || end !== undefined) {
    if (begin !== undefined && (end === undefined || begin.start < end.start)) {
      if (!isQuotedMarker(text, begin.end)) {
        report(begin.start, end?.end ?? text.length, LABEL_NAME)
        if (end === undefined) return
        at = end.end
      } else at = begin.end
    } else if (end !== undefined) {
      const start = bodyStartBefore(text, end.start, at)
      if (start < end.start) report(start, end.end, LABEL_NAME)
      at = end.end
    }
    if (begin !== undefined && begin.start < at) begin = matchFrom(BEGIN, text, at)
    if (end !== undefined && end.start < at) end = matchFrom(END, text, at)
  }
}

/** Returns whether the text ends inside an open key block. */
export function endsInsidePrivateKey(text: string): boolean {
  let open = false
  findPrivateKeyBlocks(text, (start, end) => {
    open = end === text.length && matchFrom(END, text, start) === undefined
  })
  return open
}

/** Returns where a block that began earlier ends in this text, or how much of the tail must be kept to find out. */
export function endOfPrivateKey(text: string): { readonly end: number } | { readonly keepFrom: number } {
  const close = matchFrom(END, text, 0)
  // A marker at the end of the text can continue in the next chunk.
  if (close !== undefined && (close.end < text.length || text.endsWith('-----'))) return { end: close.end }
  return { keepFrom: Math.max(0, Math.min(close?.start ?? text.length, text.length - END_MARKER_MAX)) }
}

/**
 * Returns whether code or documentation quotes the marker: in backticks, in `startsWith('…')`, or as a literal that
 * ends its line.
 */
function isQuotedMarker(text: string, at: number): boolean {
  const after = text.slice(at, at + 5)
  return /^(?:`|\\?["'](?:\)|;?[\r\n]|;?$))/.test(after)
}

const ESCAPED_BODY = alphabet(/[A-Za-z0-9+/=\\]/)

function bodyStartBefore(text: string, before: number, floor: number): number {
  if (text.startsWith('\\n', before - 2)) return runStart(text, before, ESCAPED_BODY, floor)
  let start = before
  while (start > floor) {
    const lineStart = Math.max(floor, text.lastIndexOf('\n', start - 2) + 1)
    if (start - lineStart > 100 || !/^[ \t]*[A-Za-z0-9+/=]{16,}\s*$/.test(text.slice(lineStart, start))) break
    start = lineStart
  }
  return start
}

function matchFrom(pattern: RegExp, text: string, from: number): { start: number; end: number } | undefined {
  pattern.lastIndex = from
  const match = pattern.exec(text)
  return match === null ? undefined : { start: match.index, end: match.index + match[0].length }
}
