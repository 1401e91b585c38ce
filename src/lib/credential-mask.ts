/**
 * Masks a credential that an upstream repeats: the complete credential in each encoding below, and never a part of it.
 * A sandbox that chooses the text of a response learns nothing from that, because it would have to know the whole
 * credential to see a difference.
 *
 * The search is a rolling hash over each stretch of text that is long enough to contain a credential. So its time
 * depends on how the text is divided and on the credential's length and characters, never on how much of the credential
 * is in the text.
 */
import { randomBytes, timingSafeEqual } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'

/** A shorter value could be guessed completely, and the mask would confirm the guess. */
const SHORTEST_CHARS = 16
/** How much is masked in one turn of the event loop. The slowest text of this size takes about 20 ms. */
export const TURN_BYTES = 256 * 1024
/** Valid in a header, a JSON string, an identifier and a URL. */
const FILLER = 'x'

/** Random for each process, so that nobody can prepare text with the same hash as a credential. */
const BASE = randomOdd()
const TABLE_BITS = 10

/** The bytes that tokens consist of in each encoding below. The zeros are those of UTF-16. */
const TOKEN_BYTES = classOf(/[\w.~+/=%\\\0-]/)
/** The bytes that the value of any header consists of. */
const WORD_BYTES = classOf(/[!-~\0]/)

interface Needle {
  readonly bytes: Buffer
  /** The number of its first bytes that are hashed. */
  readonly hashed: number
  /** The number of base64 characters next to it that also contain a few bits of the credential. */
  readonly before: number
  readonly after: number
}

/** Needles with the same number of hashed bytes. The search goes through the text once for each group. */
interface Group {
  readonly length: number
  readonly needles: readonly (Needle & { readonly hash: number })[]
  /** The hash of a needle in its own slot. Every other slot contains a hash that belongs to another slot. */
  readonly table: Int32Array
  /** A random factor that decides the slot of a hash in the table. */
  readonly mix: number
  /** The factor by which a byte has been multiplied when it leaves the window. */
  readonly power: number
}

export class CredentialMask {
  readonly #groups: readonly Group[]
  readonly #class: Uint8Array
  /** The shortest stretch of text that must be searched. */
  readonly #shortest: number
  /** The longest stretch of bytes that one occurrence replaces. */
  readonly span: number

  /** The values as they are sent, without a scheme such as `Bearer`. */
  constructor(credentials: readonly (Buffer | string | undefined)[]) {
    const needles = credentials.flatMap((each) => encodingsOf(each?.toString('latin1').trim() ?? ''))
    const byLength = Map.groupBy(needles, ({ hashed }) => hashed)
    this.#groups = [...byLength].map(([length, same]) => groupOf(length, same))
    const isToken = needles.every(({ bytes }) => bytes.every((byte) => TOKEN_BYTES[byte] === 1))
    this.#class = isToken ? TOKEN_BYTES : WORD_BYTES
    this.#shortest = Math.min(...byLength.keys())
    this.span = Math.max(0, ...needles.map(({ bytes, before, after }) => bytes.length + before + after))
  }

  /** Returns the same buffer, or a copy of the same length with each credential replaced. Valid JSON stays valid. */
  maskBytes(bytes: Buffer): Buffer {
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

  /**
   * Does the same for long buffers, one part in each turn of the event loop: 16 MB of base64 take more than a second.
   */
  async maskInTurns(bytes: Buffer): Promise<Buffer> {
    if (bytes.length <= TURN_BYTES) return this.maskBytes(bytes)
    const stream = this.stream()
    const masked: Buffer[] = []
    for (let at = 0; at < bytes.length; at += TURN_BYTES) {
      masked.push(stream.feed(bytes.subarray(at, at + TURN_BYTES)))
      await nextTurn()
    }
    return Buffer.concat([...masked, stream.flush()], bytes.length)
  }

  /**
   * Returns the end of the stretch that begins at `from`, if it is long enough. Otherwise returns the last byte within
   * the shortest length that ends a stretch, and does not check the bytes before it.
   */
  #stretch(bytes: Buffer, from: number): number {
    const isIn = this.#class
    // A byte that no credential contains ends every stretch before it. So the search begins where the shortest stretch
    // would end.
    for (let at = from + this.#shortest - 1; at >= from; at--) if (isIn[bytes[at]!] === 0) return at
    let end = from + this.#shortest
    while (end < bytes.length && isIn[bytes[end]!] === 1) end++
    return end
  }

  maskText(text: string): string {
    if (this.#groups.length === 0) return text
    const bytes = Buffer.from(text)
    const masked = this.maskBytes(bytes)
    return masked === bytes ? text : masked.toString()
  }

  /** Masks text that arrives in pieces. */
  stream(): MaskedStream {
    return new MaskedStream(this, this.span)
  }
}

/**
 * Holds back only an incomplete word, and no more of it than the length of a credential. No encoding contains a space,
 * a line break or any other control character except NUL. So the amount held back depends on how the text is divided,
 * never on the credential.
 */
class MaskedStream {
  readonly #mask: CredentialMask
  readonly #span: number
  /** The last bytes as they arrived. */
  #seen: Buffer = Buffer.alloc(0)
  /**
   * The number of these bytes that were already passed on. A credential may begin in them and end only in later bytes.
   */
  #passed = 0

  constructor(mask: CredentialMask, span: number) {
    this.#mask = mask
    this.#span = span
  }

  /** Returns what can be passed on now. */
  feed(chunk: Buffer): Buffer {
    const bytes = this.#seen.length === 0 ? chunk : Buffer.concat([this.#seen, chunk])
    const first = Math.max(this.#passed, bytes.length - this.#span)
    let end = bytes.length
    while (end > first && WORD_BYTES[bytes[end - 1]!] === 1) end--
    return this.#pass(bytes, end)
  }

  /** Does the same for text of whole characters. */
  feedText(text: string): string {
    // The stream holds back only ASCII, so what it passes on ends with a whole character.
    return this.feed(Buffer.from(text)).toString()
  }

  /** Returns what was held back, after the last piece. */
  flush(): Buffer {
    return this.#pass(this.#seen, this.#seen.length)
  }

  #pass(bytes: Buffer, end: number): Buffer {
    const passed = this.#mask.maskBytes(bytes).subarray(this.#passed, end)
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

/** Escapes text as in a JSON string. */
function escapeJson(text: string): string {
  return JSON.stringify(text).slice(1, -1)
}

/**
 * Returns the base64 forms without their ends. The ends depend on the surrounding bytes, and the characters between
 * them do not.
 */
function base64Of(secret: Buffer): Needle[] {
  const found = [0, 1, 2].map((offset) => {
    const [from, to] = [Math.ceil((offset * 4) / 3), Math.floor(((offset + secret.length) * 4) / 3)]
    const text = Buffer.concat([Buffer.alloc(offset), secret])
      .toString('base64')
      .slice(from, to)
    return { text, before: offset === 0 ? 0 : 1, after: (offset + secret.length) % 3 === 0 ? 0 : 1 }
  })
  // The same length for all forms saves searches. The hash omits at most one character, which is compared all the same.
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
 * Gives each hash a slot of its own, with all 32 bits. So the time for a text does not depend on some bits of a
 * credential's hash. When two hashes belong to the same slot, another factor is tried.
 */
function tableOf(hashes: ReadonlySet<number>): { readonly table: Int32Array; readonly mix: number } {
  for (;;) {
    const mix = randomOdd()
    const places = new Map([...hashes].map((hash) => [slotOf(hash, mix), hash]))
    if (places.size < hashes.size) continue
    // An empty slot contains zero, which belongs only in the first slot. The first one contains minus one, which
    // belongs in another.
    const table = new Int32Array(1 << TABLE_BITS)
    if (slotOf(-1, mix) === 0) continue
    table[0] = -1
    for (const [position, hash] of places) table[position] = hash
    return { table, mix }
  }
}

/** Mixes the hash, because the hashes of texts that differ only in their last characters are close together. */
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

/**
 * Returns what replaces these bytes, with the same length. The characters that structure JSON stay, so that JSON
 * remains valid.
 */
function replacementOf(needle: Buffer): Buffer {
  const text = needle.toString('latin1')
  // The credential may be a number in JSON.
  if (/^[\d.eE+-]+$/.test(text)) return Buffer.from(text.replace(/\d/g, '1'))
  return Buffer.from(
    text.replace(/(\\u[\da-f]{0,4}|\\.?|["{}[\],:\0])|./gis, (_, preserved?: string) => preserved ?? FILLER),
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

/** Returns how many of the bytes from `at` on belong to a JSON escape sequence that began before. */
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

/** Returns a random number that is 5 modulo 8, so that its powers repeat as late as possible. */
function randomOdd(): number {
  return (randomBytes(4).readInt32LE() & ~7) | 5
}

function classOf(pattern: RegExp): Uint8Array {
  return Uint8Array.from({ length: 256 }, (_, byte) => (pattern.test(String.fromCharCode(byte)) ? 1 : 0))
}
