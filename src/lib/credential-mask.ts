/**
 * Masks a credential that an upstream repeats: all of it, in each encoding below, and never a part of it. A guest that chooses
 * the text of an answer learns nothing from that, because it would have to know the whole credential to see a difference.
 *
 * The search is a rolling hash over each stretch of text that is long enough to hold a credential. So its time depends on how
 * the text is divided and on the credential's length and characters, never on how much of the credential is in the text.
 */
import { randomBytes, timingSafeEqual } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'

/** A shorter value could be guessed whole, and the mask would confirm the guess. */
const SHORTEST_CHARS = 16
/** Masked in one turn of the event loop: some 20 ms of the dearest text. */
export const TURN_BYTES = 256 * 1024
/** Valid in a header, a JSON string, an identifier and a URL. */
const FILLER = 'x'

/** Random for each process, so that nobody can prepare text whose hash is that of a credential. */
const BASE = randomOdd()
const TABLE_BITS = 10

/** Bytes of which tokens are made, in each encoding below; zeros are those of UTF-16. */
const TOKEN_BYTES = classOf(/[\w.~+/=%\\\0-]/)
/** Bytes of which any value of a header is made. */
const WORD_BYTES = classOf(/[!-~\0]/)

interface Needle {
  readonly bytes: Buffer
  /** So many of its first bytes are hashed. */
  readonly hashed: number
  /** Base64 characters next to it that hold a few bits of the credential as well. */
  readonly before: number
  readonly after: number
}

/** Needles of which as many bytes are hashed: the search goes through the text once for each group. */
interface Group {
  readonly length: number
  readonly needles: readonly (Needle & { readonly hash: number })[]
  /** The hash of a needle where it belongs; elsewhere one that belongs to another place. */
  readonly table: Int32Array
  /** Random, for the place of a hash in the table. */
  readonly mix: number
  /** What a byte that leaves the window has been multiplied with. */
  readonly power: number
}

export class CredentialMask {
  readonly #groups: readonly Group[]
  readonly #class: Uint8Array
  /** The shortest stretch of text that has to be searched. */
  readonly #shortest: number
  /** The longest stretch of bytes that one occurrence replaces. */
  readonly span: number

  /** The values as they are sent, without a scheme. */
  constructor(credentials: readonly (Buffer | string | undefined)[]) {
    const needles = credentials.flatMap((each) => encodingsOf(each?.toString('latin1').trim() ?? ''))
    const byLength = Map.groupBy(needles, ({ hashed }) => hashed)
    this.#groups = [...byLength].map(([length, same]) => groupOf(length, same))
    const isToken = needles.every(({ bytes }) => bytes.every((byte) => TOKEN_BYTES[byte] === 1))
    this.#class = isToken ? TOKEN_BYTES : WORD_BYTES
    this.#shortest = Math.min(...byLength.keys())
    this.span = Math.max(0, ...needles.map(({ bytes, before, after }) => bytes.length + before + after))
  }

  /** The same buffer, or a copy of the same length with each credential replaced. JSON stays JSON. */
  bytes(bytes: Buffer): Buffer {
    let masked: Buffer | undefined
    const maskNeedle = (needle: Needle, at: number) => {
      masked ??= Buffer.from(bytes)
      replace(bytes, masked, needle, at)
    }
    for (let from = 0; from + this.#shortest <= bytes.length; ) {
      const end = this.#stretch(bytes, from)
      if (end - from >= this.#shortest)
        for (const group of this.#groups) search(bytes, from, end, group, maskNeedle)
      from = end + 1
    }
    return masked ?? bytes
  }

  /** The same for long bytes, a part of them in each turn of the event loop: 16 MB of base64 take more than a second. */
  async inTurns(bytes: Buffer): Promise<Buffer> {
    if (bytes.length <= TURN_BYTES) return this.bytes(bytes)
    const stream = this.stream()
    const masked: Buffer[] = []
    for (let at = 0; at < bytes.length; at += TURN_BYTES) {
      masked.push(stream.feed(bytes.subarray(at, at + TURN_BYTES)))
      await nextTurn()
    }
    return Buffer.concat([...masked, stream.rest()], bytes.length)
  }

  /**
   * Where the stretch from here ends, if it is long enough. Otherwise where its last end is that can be known without a look at
   * each byte.
   */
  #stretch(bytes: Buffer, from: number): number {
    const isIn = this.#class
    // A byte that is in no credential ends every stretch before it: the search begins where the shortest would end.
    for (let at = from + this.#shortest - 1; at >= from; at--) if (isIn[bytes[at]!] === 0) return at
    let end = from + this.#shortest
    while (end < bytes.length && isIn[bytes[end]!] === 1) end++
    return end
  }

  text(text: string): string {
    if (this.#groups.length === 0) return text
    const bytes = Buffer.from(text)
    const masked = this.bytes(bytes)
    return masked === bytes ? text : masked.toString()
  }

  /** For what comes in pieces. */
  stream(): MaskedStream {
    return new MaskedStream(this, this.span)
  }
}

/**
 * Holds back only a word that is not over, and no more of it than a credential is long: no encoding has a blank, a line's end
 * or another control character in it. So what is held back depends on how the text is divided, never on the credential.
 */
class MaskedStream {
  readonly #mask: CredentialMask
  readonly #span: number
  /** The last bytes as they came. */
  #seen: Buffer = Buffer.alloc(0)
  /** How many of them have been passed on: a credential may begin there that is over only later. */
  #passed = 0

  constructor(mask: CredentialMask, span: number) {
    this.#mask = mask
    this.#span = span
  }

  /** What can be passed on now. */
  feed(chunk: Buffer): Buffer {
    const bytes = this.#seen.length === 0 ? chunk : Buffer.concat([this.#seen, chunk])
    const first = Math.max(this.#passed, bytes.length - this.#span)
    let end = bytes.length
    while (end > first && WORD_BYTES[bytes[end - 1]!] === 1) end--
    return this.#pass(bytes, end)
  }

  /** The same for text in whole characters. */
  feedText(text: string): string {
    // Only ASCII is held back: what is passed on ends with a whole character.
    return this.feed(Buffer.from(text)).toString()
  }

  /** What was held back, once nothing follows. */
  rest(): Buffer {
    return this.#pass(this.#seen, this.#seen.length)
  }

  #pass(bytes: Buffer, end: number): Buffer {
    const passed = this.#mask.bytes(bytes).subarray(this.#passed, end)
    const from = Math.max(0, end - this.#span)
    this.#seen = bytes.subarray(from)
    this.#passed = end - from
    return passed
  }
}

function encodingsOf(secret: string): Needle[] {
  if (secret.length < SHORTEST_CHARS) return []
  const url = encodeURIComponent(secret)
  const json = escapeJson(secret)
  const raw = Buffer.from(secret, 'latin1')
  const hex = raw.toString('hex')
  const utf16 = Buffer.from(secret, 'utf16le')
  const texts = [
    secret,
    secret.toLowerCase(),
    secret.toUpperCase(),
    url,
    url.replace(/%../g, (each) => each.toLowerCase()),
    json,
    escapeJson(json),
  ]
  const whole = [...texts, json.replaceAll('/', '\\/'), hex, hex.toUpperCase()].map((text) =>
    Buffer.from(text, 'latin1'),
  )
  const encoded = [...whole, utf16, Buffer.from(utf16).swap16()].map((bytes) => ({
    bytes,
    hashed: bytes.length,
    before: 0,
    after: 0,
  }))
  return [
    ...new Map([...encoded, ...base64Of(raw)].map((each) => [each.bytes.toString('latin1'), each])).values(),
  ]
}

/** As it stands in a JSON string. */
function escapeJson(text: string): string {
  return JSON.stringify(text).slice(1, -1)
}

/** How base64 begins and ends depends on what stands around it; the characters between these ends do not. */
function base64Of(secret: Buffer): Needle[] {
  const found = [0, 1, 2].map((offset) => {
    const [from, to] = [Math.ceil((offset * 4) / 3), Math.floor(((offset + secret.length) * 4) / 3)]
    const text = Buffer.concat([Buffer.alloc(offset), secret])
      .toString('base64')
      .slice(from, to)
    return { text, before: offset === 0 ? 0 : 1, after: (offset + secret.length) % 3 === 0 ? 0 : 1 }
  })
  // One length for all saves searches: it leaves out two characters at most, which are compared all the same.
  const hashed = Math.min(...found.map(({ text }) => text.length))
  return found.flatMap(({ text, ...around }) =>
    [text, text.replaceAll('+', '-').replaceAll('/', '_')].map((each) => ({
      bytes: Buffer.from(each),
      hashed,
      ...around,
    })),
  )
}

function groupOf(length: number, needles: readonly Needle[]): Group {
  const hashed = needles.map((needle) => ({ ...needle, hash: hashOf(needle.bytes, 0, length) }))
  const { table, mix } = tableOf(new Set(hashed.map(({ hash }) => hash)))
  let power = 1
  for (let at = 0; at < length; at++) power = Math.imul(power, BASE)
  return { length, needles: hashed, table, mix, power }
}

function hashOf(bytes: Buffer, from: number, length: number): number {
  let hash = 0
  for (let at = from; at < from + length; at++) hash = (Math.imul(hash, BASE) + bytes[at]!) | 0
  return hash
}

/**
 * A place for each hash, all of 32 bits: what a text costs does not depend on some bits of a credential's hash. Where two
 * belong in one place, another factor is tried.
 */
function tableOf(hashes: ReadonlySet<number>): { readonly table: Int32Array; readonly mix: number } {
  for (;;) {
    const mix = randomOdd()
    const places = new Map([...hashes].map((hash) => [slotOf(hash, mix), hash]))
    if (places.size < hashes.size) continue
    // Zero belongs in the first place only, and minus one in another.
    const table = new Int32Array(1 << TABLE_BITS)
    if (slotOf(-1, mix) === 0) continue
    table[0] = -1
    for (const [position, hash] of places) table[position] = hash
    return { table, mix }
  }
}

/** Mixed, because hashes of texts that differ only in their last characters are neighbours. */
function slotOf(hash: number, mix: number): number {
  return Math.imul(hash, mix) >>> (32 - TABLE_BITS)
}

function search(
  bytes: Buffer,
  from: number,
  end: number,
  group: Group,
  found: (needle: Needle, at: number) => void,
): void {
  const { length, table, mix, power } = group
  if (end - from < length) return
  let hash = hashOf(bytes, from, length)
  for (let next = from + length, at = from; ; next++, at++) {
    if (table[slotOf(hash, mix)] === hash) compare(bytes, group, hash, at, found)
    if (next === end) return
    hash = (Math.imul(hash, BASE) + bytes[next]! - Math.imul(bytes[at]!, power)) | 0
  }
}

function compare(
  bytes: Buffer,
  { needles }: Group,
  hash: number,
  at: number,
  found: (needle: Needle, at: number) => void,
): void {
  for (const needle of needles) {
    const { length } = needle.bytes
    if (needle.hash !== hash || at + length > bytes.length) continue
    if (timingSafeEqual(bytes.subarray(at, at + length), needle.bytes)) found(needle, at)
  }
}

/** Written over the same bytes. Signs that JSON is made of stay, so that what was JSON is still JSON. */
function replacementOf(needle: Buffer): Buffer {
  const text = needle.toString('latin1')
  // It may stand in JSON as a number.
  if (/^[\d.eE+-]+$/.test(text)) return Buffer.from(text.replace(/\d/g, '1'))
  return Buffer.from(
    text.replace(/(\\u[\da-f]{0,4}|\\.?|["{}[\],:\0])|./gis, (_, stored?: string) => stored ?? FILLER),
    'latin1',
  )
}

function replace(from: Buffer, to: Buffer, { bytes, before, after }: Needle, at: number): void {
  const replacement = replacementOf(bytes)
  const stored = countEscapedChars(from, at)
  replacement.copy(to, at + stored, stored)
  const end = at + replacement.length
  for (let next = at - 1; next >= at - before && isBase64(from[next]); next--) to.write(FILLER, next)
  for (let next = end; next < end + after && isBase64(from[next]); next++) to.write(FILLER, next)
}

function isBase64(byte: number | undefined): boolean {
  return byte !== undefined && /[\w+/-]/.test(String.fromCharCode(byte))
}

/** How many of the bytes from here on belong to an escape sequence of JSON that began before. */
function countEscapedChars(bytes: Buffer, at: number): number {
  for (let back = 1; back <= 5; back++) {
    let slashes = 0
    while (bytes[at - back - slashes] === 0x5c) slashes++
    if (slashes % 2 === 0) continue
    const name = String.fromCharCode(bytes[at - back + 1]!)
    if (name === 'u') return 6 - back
    return back === 1 && /["\\/bfnrt]/.test(name) ? 1 : 0
  }
  return 0
}

/** 5 modulo 8: its powers repeat as late as possible. */
function randomOdd(): number {
  return (randomBytes(4).readInt32LE() & ~7) | 5
}

function classOf(pattern: RegExp): Uint8Array {
  return Uint8Array.from({ length: 256 }, (_, byte) => (pattern.test(String.fromCharCode(byte)) ? 1 : 0))
}
