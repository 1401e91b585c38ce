/**
 * Finds the members of a JSON object in the bytes of a request. One of them can then be read or replaced, while every
 * other byte stays unchanged. The scan reads each byte once and builds no value that it skips, so a hostile body costs
 * only its own length. Limits on depth and on the number of values stop it earlier.
 */

export interface Span {
  readonly start: number
  readonly end: number
}

/** The values of an object's members by name, and the position for a new member. */
export interface Members {
  readonly spans: ReadonlyMap<string, Span>
  /** The members of those values that the scan read and that are objects. */
  readonly objects: ReadonlyMap<string, Members>
  /** The position after the opening brace. */
  readonly inside: number
  readonly isEmpty: boolean
}

/** The members to read, by name, and which of their own members. */
export interface LookInto {
  readonly [name: string]: LookInto
}

/** Why a body is refused. `syntax`: a JSON parser rejects it too. */
export type JsonFault =
  | 'syntax'
  | 'not_object'
  | 'duplicate'
  | 'too_deep'
  | 'too_many_values'
  | 'too_many_members'
  | 'long_name'

/** Deeper than any legitimate request. */
const DEPTH_MAX = 200
/** A request of 32 MB is mostly text and images. A long conversation has some ten thousand values. */
export const VALUES_MAX = 1_000_000
const MEMBERS_MAX = 1000
const NAME_BYTES_MAX = 200

/** More than a real response has: 2,000 tokens with the probabilities of 20 others each are some 400,000. */
const ANSWER_VALUES_MAX = 1_000_000

/** JSON that may be valid, but would take long to parse or much memory to hold. */
export class TooComplex extends SyntaxError {}

/** A value of a response, as far as it was read. */
export type Loose =
  | { readonly [name: string]: Loose }
  | readonly Loose[]
  | string
  | number
  | boolean
  | null
  | undefined

/** The members that the dialects' readers use, at any depth. */
const READ_NAMES: ReadonlySet<string> = new Set([
  'type',
  'object',
  'id',
  'message',
  'response',
  'delta',
  'text',
  'partial_json',
  'thinking',
  'choices',
  'content',
  'refusal',
  'reasoning',
  'reasoning_content',
  'tool_calls',
  'function',
  'arguments',
  'candidates',
  'parts',
  'functionCall',
  'finishReason',
  'promptFeedback',
  'blockReason',
  'error',
  'status',
  'status_code',
  'code',
  'details',
  'reason',
  'retryDelay',
  'usage',
  'usageMetadata',
  'input_tokens',
  'output_tokens',
  'cache_read_input_tokens',
  'cache_creation_input_tokens',
  'input_tokens_details',
  'cached_tokens',
  'prompt_tokens',
  'completion_tokens',
  'total_tokens',
  'prompt_tokens_details',
  'promptTokenCount',
  'toolUsePromptTokenCount',
  'cachedContentTokenCount',
  'candidatesTokenCount',
  'thoughtsTokenCount',
  'totalTokenCount',
])
/** Only the length of these members is used, so they stay unparsed text. */
const RAW_NAMES: ReadonlySet<string> = new Set(['functionCall'])
const READ_NAME_BYTES_MAX = 32
/** The most values to build. Gemini's stream as one list has some 15 in each of its chunks. */
const BUILT_VALUES_MAX = 200_000

/**
 * Parses the JSON of a provider without building unused members: JSON.parse blocks the event loop for a second on 16 MB
 * of members with distinct names. Throws SyntaxError.
 */
export function parseAnswer(answer: Buffer | string): Loose {
  const bytes = typeof answer === 'string' ? Buffer.from(answer) : answer
  const scan: BuildScan = { ...newScan(bytes, ANSWER_VALUES_MAX), built: 0 }
  const value = buildValue(scan, 0)
  if (scan.fault === undefined && isAtEnd(scan)) return value
  if (scan.fault === 'syntax') throw new SyntaxError('the response is not JSON')
  throw new TooComplex(`the response is too complex: ${scan.fault}`)
}

interface BuildScan extends Scan {
  built: number
}

/** Builds the value at the current position. Its result counts only if the scan has no fault. */
function buildValue(scan: BuildScan, depth: number): Loose {
  const { bytes } = scan
  if (++scan.built > BUILT_VALUES_MAX) return void fail(scan, 'too_many_values')
  scan.at = blankEnd(bytes, scan.at)
  const byte = bytes[scan.at]
  if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) {
    if (++scan.values > scan.valuesMax) return void fail(scan, 'too_many_values')
    if (depth === DEPTH_MAX) return void fail(scan, 'too_deep')
    scan.at = blankEnd(bytes, scan.at + 1)
    return byte === OPEN_OBJECT ? buildObject(scan, depth + 1) : buildArray(scan, depth + 1)
  }
  const start = scan.at
  if (!skipValue(scan)) return undefined
  return JSON.parse(bytes.toString('utf8', start, scan.at)) as Loose
}

function buildObject(scan: BuildScan, depth: number): Loose {
  const { bytes } = scan
  const object: Record<string, Loose> = {}
  if (take(scan, CLOSE_OBJECT)) return object
  for (;;) {
    const nameStart = blankEnd(bytes, scan.at) + 1
    if (!skipName(scan)) return undefined
    const name = readNameAt(bytes, nameStart)
    scan.at = blankEnd(bytes, scan.at)
    const start = scan.at
    if (name !== undefined && !RAW_NAMES.has(name)) object[name] = buildValue(scan, depth)
    else if (skipValue(scan) && name !== undefined) object[name] = bytes.toString('utf8', start, scan.at)
    if (scan.fault !== undefined) return undefined
    scan.at = blankEnd(bytes, scan.at)
    if (take(scan, CLOSE_OBJECT)) return object
    if (!take(scan, COMMA)) return void fail(scan, 'syntax')
  }
}

/** Returns `undefined` for a name that no reader uses. Providers write the used names without escapes. */
function readNameAt(bytes: Buffer, start: number): string | undefined {
  const most = Math.min(start + READ_NAME_BYTES_MAX, bytes.length)
  for (let at = start; at < most; at++) {
    if (bytes[at] !== QUOTE) continue
    const name = bytes.toString('latin1', start, at)
    return READ_NAMES.has(name) ? name : undefined
  }
  return undefined
}

function buildArray(scan: BuildScan, depth: number): Loose {
  const { bytes } = scan
  const array: Loose[] = []
  if (take(scan, CLOSE_ARRAY)) return array
  for (;;) {
    array.push(buildValue(scan, depth))
    if (scan.fault !== undefined) return undefined
    scan.at = blankEnd(bytes, scan.at)
    if (take(scan, CLOSE_ARRAY)) return array
    if (!take(scan, COMMA)) return void fail(scan, 'syntax')
  }
}

/** Scans a body, which must be one object without duplicate members. The bytes must be UTF-8. */
export function scanObject(bytes: Buffer, lookInto: LookInto = {}): Members | JsonFault {
  const scan = newScan(bytes, VALUES_MAX)
  if (bytes[scan.at] !== OPEN_OBJECT) return skipValue(scan) && isAtEnd(scan) ? 'not_object' : scan.fault!
  const members = readObject(scan, lookInto)
  if (members === undefined || !isAtEnd(scan)) return scan.fault!
  return members
}

/** Parses a short value. Returns `undefined` when it is longer than any value that the gateway reads. */
export function valueAt(body: Buffer, { start, end }: Span): unknown {
  return end - start > 2000 ? undefined : (JSON.parse(body.toString('utf8', start, end)) as unknown)
}

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const COLON = 0x3a
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d
const OPEN_ARRAY = 0x5b
const CLOSE_ARRAY = 0x5d

interface Scan {
  readonly bytes: Buffer
  at: number
  values: number
  readonly valuesMax: number
  /** Set by the function that stops the scan. */
  fault: JsonFault | undefined
  /** The stack of open values around the current one: each is `OPEN_OBJECT` or `OPEN_ARRAY`. */
  readonly open: Uint8Array
}

/** Scans never overlap, so all of them use the same stack. */
const OPEN = new Uint8Array(DEPTH_MAX)

function newScan(bytes: Buffer, valuesMax: number): Scan {
  return { bytes, at: blankEnd(bytes, 0), values: 0, valuesMax, fault: undefined, open: OPEN }
}

function fail(scan: Scan, fault: JsonFault): false {
  scan.fault ??= fault
  return false
}

function isAtEnd(scan: Scan): boolean {
  return blankEnd(scan.bytes, scan.at) === scan.bytes.length || fail(scan, 'syntax')
}

/** Reads the object at the current position, and its members that are listed. */
function readObject(scan: Scan, lookInto: LookInto): Members | undefined {
  const { bytes } = scan
  if (++scan.values > scan.valuesMax) return void fail(scan, 'too_many_values')
  const inside = ++scan.at
  const spans = new Map<string, Span>()
  const objects = new Map<string, Members>()
  scan.at = blankEnd(bytes, scan.at)
  if (take(scan, CLOSE_OBJECT)) return { spans, objects, inside, isEmpty: true }
  for (;;) {
    const name = readName(scan)
    if (name === undefined) return undefined
    if (spans.has(name)) return void fail(scan, 'duplicate')
    if (spans.size === MEMBERS_MAX) return void fail(scan, 'too_many_members')
    const start = scan.at
    if (bytes[start] === OPEN_OBJECT && Object.hasOwn(lookInto, name)) {
      const members = readObject(scan, lookInto[name]!)
      if (members === undefined) return undefined
      objects.set(name, members)
    } else if (!skipValue(scan)) return undefined
    spans.set(name, { start, end: scan.at })
    scan.at = blankEnd(bytes, scan.at)
    if (take(scan, CLOSE_OBJECT)) return { spans, objects, inside, isEmpty: false }
    if (!take(scan, COMMA)) return void fail(scan, 'syntax')
  }
}

/** Reads a member's name and its colon, up to the beginning of its value. */
function readName(scan: Scan): string | undefined {
  const { bytes } = scan
  const start = blankEnd(bytes, scan.at)
  if (!skipName(scan)) return undefined
  const end = bytes.lastIndexOf(QUOTE, scan.at - 1)
  scan.at = blankEnd(bytes, scan.at)
  if (end + 1 - start > NAME_BYTES_MAX) return void fail(scan, 'long_name')
  return JSON.parse(bytes.toString('utf8', start, end + 1)) as string
}

/** Skips one value of any kind. */
function skipValue(scan: Scan): boolean {
  const { bytes, open } = scan
  let depth = 0
  for (;;) {
    scan.at = blankEnd(bytes, scan.at)
    const byte = bytes[scan.at]
    if (++scan.values > scan.valuesMax) return fail(scan, 'too_many_values')
    if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) {
      scan.at = blankEnd(bytes, scan.at + 1)
      if (!take(scan, byte + 2)) {
        if (depth === DEPTH_MAX) return fail(scan, 'too_deep')
        open[depth++] = byte
        if (byte === OPEN_OBJECT && !skipName(scan)) return false
        continue
      }
    } else {
      const end = byte === QUOTE ? stringEnd(bytes, scan.at + 1) : literalEnd(bytes, scan.at)
      if (end === -1) return fail(scan, 'syntax')
      scan.at = end
    }
    // A value has ended. Its parents may end here too.
    for (;;) {
      if (depth === 0) return true
      const around = open[depth - 1]!
      scan.at = blankEnd(bytes, scan.at)
      if (take(scan, COMMA)) {
        if (around === OPEN_OBJECT && !skipName(scan)) return false
        break
      }
      // In ASCII, the closing bracket is two after the opening one, for both kinds.
      if (!take(scan, around + 2)) return fail(scan, 'syntax')
      depth--
    }
  }
}

/** Skips a member's name and its colon. */
function skipName(scan: Scan): boolean {
  const { bytes } = scan
  const start = blankEnd(bytes, scan.at)
  const end = bytes[start] === QUOTE ? stringEnd(bytes, start + 1) : -1
  if (end === -1) return fail(scan, 'syntax')
  scan.at = blankEnd(bytes, end)
  return take(scan, COLON) || fail(scan, 'syntax')
}

/**
 * Returns the position after the closing quote, or -1 for an invalid JSON string. Most of a body's bytes pass through
 * this loop. Testing letters first, and `| 0`, which keeps the engine within 32 bits, take a third off the time of the
 * plain loop.
 */
function stringEnd(bytes: Buffer, from: number): number {
  const length = bytes.length | 0
  let at = from | 0
  while (at < length) {
    const byte = bytes[at]!
    at = (at + 1) | 0
    if (byte > BACKSLASH) continue
    if (byte === QUOTE) return at
    if (byte < 0x20) return -1
    if (byte !== BACKSLASH) continue
    if (at === length) return -1
    const escaped = bytes[at++]!
    if (escaped !== 0x75) {
      if (IS_ESCAPE[escaped] === 0) return -1
      continue
    }
    if (at + 4 > length) return -1
    for (const end = at + 4; at < end; at++) if (IS_HEX[bytes[at]!] === 0) return -1
  }
  return -1
}

/** Returns the position after a number, `true`, `false` or `null`, or -1 for anything else. */
function literalEnd(bytes: Buffer, from: number): number {
  let at = from
  let byte = bytes[at]
  if (byte === 0x74) return wordEnd(bytes, at, TRUE)
  if (byte === 0x66) return wordEnd(bytes, at, FALSE)
  if (byte === 0x6e) return wordEnd(bytes, at, NULL)
  if (byte === 0x2d) byte = bytes[++at]
  at = byte === 0x30 ? at + 1 : digitsEnd(bytes, at)
  if (at !== -1 && bytes[at] === 0x2e) at = digitsEnd(bytes, at + 1)
  if (at === -1) return -1
  byte = bytes[at]
  if (byte !== 0x65 && byte !== 0x45) return at
  const sign = bytes[at + 1]
  return digitsEnd(bytes, sign === 0x2b || sign === 0x2d ? at + 2 : at + 1)
}

/** Returns the position after one or more digits, or -1 if none exists. */
function digitsEnd(bytes: Buffer, from: number): number {
  let at = from
  while (at < bytes.length && bytes[at]! >= 0x30 && bytes[at]! <= 0x39) at++
  return at === from ? -1 : at
}

function wordEnd(bytes: Buffer, from: number, word: Buffer): number {
  for (let at = 0; at < word.length; at++) if (bytes[from + at] !== word[at]) return -1
  return from + word.length
}

function blankEnd(bytes: Buffer, from: number): number {
  let at = from
  for (; at < bytes.length; at++) {
    const byte = bytes[at]!
    if (byte > 0x20 || (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09)) break
  }
  return at
}

function take(scan: Scan, byte: number): boolean {
  if (scan.bytes[scan.at] !== byte) return false
  scan.at++
  return true
}

const TRUE = Buffer.from('true')
const FALSE = Buffer.from('false')
const NULL = Buffer.from('null')
const IS_ESCAPE = table('"\\/bfnrt')
const IS_HEX = table('0123456789abcdefABCDEF')

function table(characters: string): Uint8Array {
  const found = new Uint8Array(256)
  for (const each of Buffer.from(characters)) found[each] = 1
  return found
}

export interface Edit extends Span {
  readonly text: string
}

/** Returns the bytes with the edits applied. `start === end` inserts text. Edits must not overlap. */
export function applyEdits(body: Buffer, edits: readonly Edit[]): Buffer {
  const pieces: Buffer[] = []
  let at = 0
  for (const { start, end, text } of edits.toSorted((a, b) => a.start - b.start)) {
    pieces.push(body.subarray(at, start), Buffer.from(text))
    at = end
  }
  return Buffer.concat([...pieces, body.subarray(at)])
}

/** Inserts a member before all others. */
export function insertMember({ inside, isEmpty }: Members, name: string, value: string): Edit {
  return { start: inside, end: inside, text: `${JSON.stringify(name)}:${value}${isEmpty ? '' : ','}` }
}
