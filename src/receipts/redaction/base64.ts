/** Base64 whose content is a credential: encoded config files, service accounts and headers. */
import { alphabet, isMember, runEnd, runStart } from './characters.ts'
import type { ReportFinding } from './findings.ts'

const BASE64 = alphabet(/[A-Za-z0-9+/_-]/)
const RUN_MIN = 40
/** Lines of at least this length are joined, because `base64` and MIME wrap them. */
export const WRAPPED_LINE_MIN = 60
/** Longer runs are read up to this length. It fits any credential file and limits the work. */
const DECODE_MAX = 65_536
const READABLE = /[\t\n\r\x20-\x7e]{16,}/g
const LINE_BREAK = /(?:\r?\n|\\r\\n|\\n)[ \t]{0,16}(?=[A-Za-z0-9+/])/y

const LINE_END = /^(?:={0,2}(?:$|[\r\n"'\\]))/
const HEX = /^[0-9a-f]+$/i

export type SecretCheck = (text: string) => boolean

export function findEncodedSecrets(text: string, holdsSecret: SecretCheck, report: ReportFinding): void {
  let from = 0
  for (let run = nextRun(text, from); run !== undefined; run = nextRun(text, from)) {
    const block = readWrappedBlock(text, run)
    if (decodesToSecret(block.content, holdsSecret)) {
      report(run.start, block.end + paddingLength(text, block.end), 'base64')
    }
    from = block.end
  }
}

/** The base64 beginnings of JSON: `{"`, `{ "`, a brace and a line break, `[{"`. */
const JSON_START = /eyJ|eyAi|ewog|ewoJ|W3si/g
/** The length of `{"pwd":"x"}` in base64. */
const JSON_MIN = 15

/** JSON is recognizable by its first characters, so runs too short for the rule above are decoded as well. */
export function findShortEncodedJson(text: string, holdsSecret: SecretCheck, report: ReportFinding): void {
  let from = 0
  // `matchAll` copies the pattern, which matters because this rule also searches the decoded text.
  for (const match of text.matchAll(JSON_START)) {
    if (match.index < from) continue
    const end = runEnd(text, match.index, BASE64)
    from = end
    if (end - match.index < JSON_MIN || end - match.index >= RUN_MIN) continue
    const decoded = Buffer.from(text.slice(match.index, end), 'base64').toString('latin1')
    if (/^[\t\n\r\x20-\x7e\x80-\xff]*$/.test(decoded) && holdsSecret(decoded))
      report(match.index, end + paddingLength(text, end), 'base64')
  }
}

interface Run {
  readonly start: number
  readonly end: number
}

/** Checks only every fortieth character until one could lie in a long run, so that prose costs almost nothing. */
export function nextRun(text: string, from: number): Run | undefined {
  let at = from + RUN_MIN - 1
  while (at < text.length) {
    if (!isMember(BASE64, text.charCodeAt(at))) {
      at += RUN_MIN
      continue
    }
    const start = runStart(text, at, BASE64, Math.max(from, at - RUN_MIN + 1))
    const end = runEnd(text, at, BASE64)
    if (end - start >= RUN_MIN) return { start, end }
    at = end + RUN_MIN
  }
  return undefined
}

function readWrappedBlock(text: string, run: Run): { readonly content: string; readonly end: number } {
  let content = text.slice(run.start, Math.min(run.end, run.start + DECODE_MAX))
  let end = run.end
  const width = run.end - run.start
  if (width < WRAPPED_LINE_MIN || width > 128 || HEX.test(content)) return { content, end }
  while (content.length < DECODE_MAX) {
    LINE_BREAK.lastIndex = end
    if (!LINE_BREAK.test(text)) break
    const start = LINE_BREAK.lastIndex
    const lineEnd = runEnd(text, start, BASE64, start + width + 1)
    if (lineEnd - start > width || !LINE_END.test(text.slice(lineEnd, lineEnd + 4))) break
    content += text.slice(start, lineEnd)
    end = lineEnd
    if (lineEnd - start < width) break
  }
  return { content, end }
}

/** Tries all four alignments, because other characters can directly precede a run. */
function decodesToSecret(content: string, holdsSecret: SecretCheck): boolean {
  if (content.length <= 128 && HEX.test(content)) return false
  for (let shift = 0; shift < 4; shift++) {
    const decoded = Buffer.from(shift === 0 ? content : content.slice(shift), 'base64')
    // PowerShell encodes UTF-16, in which every second byte of Latin text is zero.
    const readable = decoded.toString('latin1').replaceAll('\0', '').match(READABLE)
    if (readable !== null && holdsSecret(readable.join('\n'))) return true
  }
  return false
}

function paddingLength(text: string, at: number): number {
  return /^(?:=|%3D|\\u003d){0,2}/i.exec(text.slice(at, at + 12))![0].length
}

const AWS_KEY_ID = /A[KS]IA[A-Z0-9]{16}/
/** The distance from the key id within which its secret is searched, on the same line. */
const AWS_PAIR_DISTANCE = 200

/** A 40-character AWS secret has no prefix of its own. It is recognized next to an access key id. */
export function findAwsSecrets(text: string, report: ReportFinding): void {
  if (!AWS_KEY_ID.test(text)) return
  for (let run = nextRun(text, 0); run !== undefined; run = nextRun(text, run.end)) {
    if (run.end - run.start !== 40) continue
    const value = text.slice(run.start, run.end)
    if (!/\d/.test(value) || !/[a-z]/.test(value) || !/[A-Z]/.test(value) || /[_-]/.test(value)) continue
    const before = text.slice(Math.max(0, run.start - AWS_PAIR_DISTANCE), run.start)
    const [after] = text.slice(run.end, run.end + AWS_PAIR_DISTANCE).split('\n', 1)
    if (AWS_KEY_ID.test(before.slice(before.lastIndexOf('\n') + 1)) || AWS_KEY_ID.test(after!)) {
      report(run.start, run.end, 'aws_secret_access_key')
    }
  }
}
