/**
 * Finds the members of a JSON object in the bytes of a request, so that one of them can be read or replaced and every
 * other byte stays as it was sent. Nothing is built of what is only passed over: a hostile body costs its own length.
 */

export interface Span {
  readonly start: number
  readonly end: number
}

/** The values of an object's members by name, and where the next member could be put. */
export interface Members {
  readonly spans: ReadonlyMap<string, Span>
  /** After the opening brace. */
  readonly inside: number
  readonly isEmpty: boolean
}

/** Deeper than any request that is meant. */
const DEPTH_MAX = 200
const MEMBERS_MAX = 1000
const NAME_BYTES_MAX = 200

/** The whole body is one object; undefined: it is no such JSON, or names a member twice. */
export function wholeObject(body: Buffer): Members | undefined {
  const scan = new Scan(body, 0)
  const members = scan.object()
  return members !== undefined && scan.atEnd() ? members : undefined
}

/** The object that stands at a place that was found before; undefined: there stands something else. */
export function objectAt(body: Buffer, { start }: Span): Members | undefined {
  return new Scan(body, start).object()
}

/** A short value; undefined: it is longer than what anything that is read here can be, or not well spelled. */
export function valueAt(body: Buffer, { start, end }: Span): unknown {
  if (end - start > 2000) return undefined
  try {
    return JSON.parse(body.toString('utf8', start, end))
  } catch {
    return undefined
  }
}

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const COLON = 0x3a
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d
const OPEN_ARRAY = 0x5b
const CLOSE_ARRAY = 0x5d

/** Exactly what JSON is, but for control characters and escapes within strings, which every reader reads alike. */
class Scan {
  readonly #bytes: Buffer
  #at: number

  constructor(bytes: Buffer, at: number) {
    this.#bytes = bytes
    this.#at = at
  }

  atEnd(): boolean {
    this.#blank()
    return this.#at === this.#bytes.length
  }

  object(): Members | undefined {
    this.#blank()
    if (!this.#take(OPEN_OBJECT)) return undefined
    const inside = this.#at
    const spans = new Map<string, Span>()
    this.#blank()
    if (this.#take(CLOSE_OBJECT)) return { spans, inside, isEmpty: true }
    for (;;) {
      const name = this.#name()
      if (name === undefined || spans.has(name) || spans.size === MEMBERS_MAX) return undefined
      this.#blank()
      const start = this.#at
      if (!this.#value()) return undefined
      spans.set(name, { start, end: this.#at })
      this.#blank()
      if (this.#take(CLOSE_OBJECT)) return { spans, inside, isEmpty: false }
      if (!this.#take(COMMA)) return undefined
    }
  }

  /** A member's name and its colon. */
  #name(): string | undefined {
    this.#blank()
    const start = this.#at
    if (!this.#string() || this.#at - start > NAME_BYTES_MAX) return undefined
    const text = this.#bytes.toString('utf8', start, this.#at)
    this.#blank()
    if (!this.#take(COLON)) return undefined
    try {
      return JSON.parse(text) as string
    } catch {
      return undefined
    }
  }

  /** Passes over one value, whatever it is. The stack says what is open: true for an object. */
  #value(): boolean {
    const open: boolean[] = []
    for (;;) {
      this.#blank()
      const byte = this.#bytes[this.#at]
      if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) {
        this.#at++
        this.#blank()
        if (!this.#take(byte === OPEN_OBJECT ? CLOSE_OBJECT : CLOSE_ARRAY)) {
          if (open.push(byte === OPEN_OBJECT) > DEPTH_MAX) return false
          if (byte === OPEN_OBJECT && !this.#passName()) return false
          continue
        }
      } else if (byte === QUOTE ? !this.#string() : !this.#literal()) return false
      // A value has ended: so may what it stands in.
      for (;;) {
        const isObject = open.at(-1)
        if (isObject === undefined) return true
        this.#blank()
        if (this.#take(COMMA)) {
          if (isObject && !this.#passName()) return false
          break
        }
        if (!this.#take(isObject ? CLOSE_OBJECT : CLOSE_ARRAY)) return false
        open.pop()
      }
    }
  }

  #passName(): boolean {
    this.#blank()
    if (!this.#string()) return false
    this.#blank()
    return this.#take(COLON)
  }

  #string(): boolean {
    if (!this.#take(QUOTE)) return false
    const bytes = this.#bytes
    let at = this.#at
    for (;;) {
      const end = bytes.indexOf(QUOTE, at)
      if (end === -1) return false
      let escapes = 0
      while (bytes[end - 1 - escapes] === BACKSLASH && end - escapes > this.#at) escapes++
      at = end + 1
      if (escapes % 2 === 0) {
        this.#at = at
        return true
      }
    }
  }

  #literal(): boolean {
    const start = this.#at
    while (this.#at - start <= 400 && isLiteral(this.#bytes[this.#at])) this.#at++
    const text = this.#bytes.toString('latin1', start, this.#at)
    return /^(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)$/.test(text)
  }

  #blank(): void {
    const bytes = this.#bytes
    for (;;) {
      const byte = bytes[this.#at]
      if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return
      this.#at++
    }
  }

  #take(byte: number): boolean {
    if (this.#bytes[this.#at] !== byte) return false
    this.#at++
    return true
  }
}

function isLiteral(byte: number | undefined): boolean {
  return (
    byte !== undefined &&
    ((byte >= 0x30 && byte <= 0x39) ||
      (byte >= 0x61 && byte <= 0x7a) ||
      '+-.E'.includes(String.fromCharCode(byte)))
  )
}

export interface Edit extends Span {
  readonly text: string
}

/** The bytes with some of them replaced; `start === end` puts text in. Edits do not overlap. */
export function edited(body: Buffer, edits: readonly Edit[]): Buffer {
  const pieces: Buffer[] = []
  let at = 0
  for (const { start, end, text } of edits.toSorted((a, b) => a.start - b.start)) {
    pieces.push(body.subarray(at, start), Buffer.from(text))
    at = end
  }
  return Buffer.concat([...pieces, body.subarray(at)])
}

/** Puts a member in front of all others. */
export function memberPutIn({ inside, isEmpty }: Members, name: string, value: string): Edit {
  return { start: inside, end: inside, text: `${JSON.stringify(name)}:${value}${isEmpty ? '' : ','}` }
}
