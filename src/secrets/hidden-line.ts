/**
 * Processes what the user types at a terminal in raw mode, byte by byte, until Enter. Handles editing keys and pastes.
 */

const CTRL_C = 0x03
const CTRL_D = 0x04
const BACKSPACE = 0x08
const LINE_FEED = 0x0a
const RETURN = 0x0d
const CTRL_U = 0x15
const ESCAPE = 0x1b
const DELETE = 0x7f

/** Asks the terminal to mark pastes, so that a line break in one does not count as Enter. */
export const MARK_PASTES = '\x1b[?2004h'
export const PASTE_MODE_OFF = '\x1b[?2004l'
const PASTE_BEGINS = '[200~'
const PASTE_ENDS = '[201~'

export type LineState = 'typing' | 'entered' | 'interrupted' | 'several_lines' | 'too_long'

export class HiddenLine {
  #typed: Buffer
  #length = 0
  /** The bytes of an incomplete escape sequence, after ESC. */
  #escape: string | undefined
  #pasting = false
  #afterReturn = false

  constructor(maxBytes: number) {
    this.#typed = Buffer.alloc(maxBytes)
  }

  /** Processes what the terminal sent. Input continues only while this returns `typing`. */
  feed(chunk: Uint8Array): LineState {
    for (const [at, byte] of chunk.entries()) {
      const state = this.#take(byte)
      if (state === 'entered' && at + 1 < chunk.length && !isLineEnd(chunk.subarray(at + 1)))
        return 'several_lines'
      if (state !== 'typing') return state
    }
    return 'typing'
  }

  /** Returns a copy of what was entered, and wipes the typed bytes. */
  finish(): Buffer {
    const value = Buffer.from(this.#typed.subarray(0, this.#length))
    this.wipe()
    return value
  }

  wipe(): void {
    this.#typed.fill(0)
    this.#length = 0
  }

  #take(byte: number): LineState {
    if (this.#escape !== undefined) return this.#takeEscape(byte)
    if (byte === ESCAPE) {
      this.#escape = ''
      return 'typing'
    }
    return this.#pasting ? this.#takePasted(byte) : this.#takeTyped(byte)
  }

  #takeTyped(byte: number): LineState {
    if (byte === RETURN || byte === LINE_FEED) return 'entered'
    if (byte === CTRL_C) return 'interrupted'
    if (byte === CTRL_D) return this.#length === 0 ? 'interrupted' : 'entered'
    if (byte === BACKSPACE || byte === DELETE) this.#dropCharacter()
    else if (byte === CTRL_U) this.wipe()
    else if (byte >= 0x20) return this.#append(byte)
    return 'typing'
  }

  /** Terminals send the line breaks of a paste as carriage returns. */
  #takePasted(byte: number): LineState {
    const secondOfPair = byte === LINE_FEED && this.#afterReturn
    this.#afterReturn = byte === RETURN
    if (secondOfPair) return 'typing'
    return this.#append(byte === RETURN ? LINE_FEED : byte)
  }

  /**
   * Drops escape sequences completely, such as those of arrow keys. Only the marks around a paste have a meaning here.
   */
  #takeEscape(byte: number): LineState {
    if (byte === CTRL_C && !this.#pasting) return 'interrupted'
    this.#escape += String.fromCharCode(byte)
    const sequence = this.#escape!
    const opened = sequence === '[' || sequence === 'O'
    const parameters = sequence.startsWith('[') && byte >= 0x20 && byte < 0x40
    if (opened || parameters) return 'typing'
    this.#escape = undefined
    if (sequence === PASTE_BEGINS) this.#pasting = true
    else if (sequence === PASTE_ENDS) this.#pasting = false
    return 'typing'
  }

  #append(byte: number): LineState {
    if (this.#length === this.#typed.length) return 'too_long'
    this.#typed[this.#length++] = byte
    return 'typing'
  }

  /** Removes one character, which in UTF-8 is a first byte and its continuation bytes. */
  #dropCharacter(): void {
    while (this.#length > 0) {
      const byte = this.#typed[--this.#length]!
      this.#typed[this.#length] = 0
      if ((byte & 0xc0) !== 0x80) return
    }
  }
}

function isLineEnd(rest: Uint8Array): boolean {
  return rest.length === 1 && rest[0] === LINE_FEED
}
