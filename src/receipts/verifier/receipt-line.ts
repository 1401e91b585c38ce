/** 3. One receipt line: {"body":{…},"seal":{…}} */
import * as crypto from 'node:crypto'
import { leafHash } from './merkle.ts'
import type { MacKey } from './report.ts'

/** The part that outlives the line. `seq` is the number that the line states, or -1 if it is not a receipt. */
export interface LogEntry {
  leaf: Buffer
  seq: number
  id: string | undefined
}
interface Seal {
  at: string
  kid: string
  prev: string
  hmac: string
  seq: number
}

export interface ParsedReceipt {
  line: Buffer
  text: string // the same bytes as Latin-1
  seal: Seal | undefined
  entry: LogEntry
}

const SEAL = new RegExp(
  '^},"seal":{"at":"(\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z)","kid":"([0-9a-f]{16})",' +
    '"prev":"([0-9a-f]{64})","receipt_hmac":"([0-9a-f]{64})","seq":(0|[1-9]\\d{0,14})}}$',
)

export function readReceipt(line: Buffer): ParsedReceipt {
  const text = line.toString('latin1')
  const seal = readSeal(text)
  return { line, text, seal, entry: { leaf: leafHash(line), seq: seal?.seq ?? -1, id: readId(text) } }
}

/**
 * Reads the seal from the end of the line, where canonical JSON puts it, without parsing the body. Any JSON parser
 * finds the same seal: a string cannot contain bare quotes, so the last brace closes the line's own object.
 */
function readSeal(text: string): Seal | undefined {
  const match = text.startsWith('{"body":{') && SEAL.exec(text.slice(text.lastIndexOf('},"seal":{')))
  if (!match) return undefined
  return { at: match[1]!, kid: match[2]!, prev: match[3]!, hmac: match[4]!, seq: Number(match[5]) }
}

/** Reads the id, to name a receipt to a person. Only this alphabet reaches a terminal. */
function readId(text: string): string | undefined {
  return /"id":"(rcpt_[0-9A-HJKMNP-TV-Z]{26})"/.exec(text)?.[1]
}

/** Computes the HMAC over the line without the HMAC's own member, `"receipt_hmac":"<64 hex>",` (82 bytes). */
export function hmacOf({ line, text }: ParsedReceipt, key: MacKey): string {
  const start = text.lastIndexOf('"receipt_hmac":"')
  const hmac = crypto.createHmac('sha256', key).update(line.subarray(0, start))
  return hmac.update(line.subarray(start + 82)).digest('hex')
}

const POLICY = '"policy_digest":"'

/** Returns the digests of the policies that a receipt's decision names. A string cannot contain a bare quote. */
export function policiesOf(text: string): string[] {
  const found: string[] = []
  for (let at = text.indexOf(POLICY); at >= 0; at = text.indexOf(POLICY, at + POLICY.length)) {
    const digest = text.slice(at + POLICY.length, at + POLICY.length + 71)
    if (!found.includes(digest) && /^sha256:[0-9a-f]{64}$/.test(digest)) found.push(digest)
  }
  return found
}

/**
 * Parses a value only if the file has it in the format of an export. JSON parsers differ on duplicate members, so other
 * readers of the file must see what was verified.
 */
// biome-ignore lint/suspicious/noExplicitAny: what a file holds has no type; each reader checks what it takes.
export function parseExact(bytes: Buffer, indent = 0): any {
  const value = parseJson(bytes)
  if (typeof value !== 'object' || value === null || Object.keys(value).length !== 1) return undefined
  return Buffer.from(JSON.stringify(value, null, indent)).equals(bytes) ? value : undefined
}

// biome-ignore lint/suspicious/noExplicitAny: what a file holds has no type; each reader checks what it takes.
export function parseJson(bytes: Buffer): any {
  try {
    return JSON.parse(bytes.toString())
  } catch {
    return undefined
  }
}
