/** Bytes that both ends of a transfer can generate. A lost, repeated or changed byte is found at its position. */
import { type Cipheriv, createCipheriv, createHash } from 'node:crypto'
import { Readable } from 'node:stream'

const BLOCK_BYTES = 16
const CHUNK_BYTES = 256 * 1024
/** The input of the keystream. Longer chunks get a new buffer. */
const ZEROS = Buffer.alloc(CHUNK_BYTES)

/** Returns AES in counter mode over zeros, which can start at any offset. */
export function keystream(name: string, offset = 0): Cipheriv {
  const key = createHash('sha256').update(name).digest().subarray(0, 16)
  const counter = Buffer.alloc(BLOCK_BYTES)
  counter.writeBigUInt64BE(BigInt(Math.floor(offset / BLOCK_BYTES)), 8)
  const cipher = createCipheriv('aes-128-ctr', key, counter)
  cipher.update(Buffer.alloc(offset % BLOCK_BYTES))
  return cipher
}

function zeros(bytes: number): Buffer {
  return bytes <= ZEROS.length ? ZEROS.subarray(0, bytes) : Buffer.alloc(bytes)
}

/** Returns a program for the sandbox that writes the given number of these bytes to a file. */
export function keystreamProgram(name: string, bytes: number, file: string): string {
  return `${sandboxKeystream(name)}
    const file = fs.openSync('${file}', 'wx')
    for (let left = ${bytes}; left > 0; left -= zeros.length)
      fs.writeSync(file, cipher.update(zeros.subarray(0, Math.min(left, zeros.length))))`
}

/** Returns a program for the sandbox that prints `whole`, or how the file differs from these bytes. */
export function checkProgram(name: string, bytes: number, file: string): string {
  return `${sandboxKeystream(name)}
    const file = fs.openSync('${file}', 'r'), { size } = fs.fstatSync(file), read = Buffer.alloc(zeros.length)
    let at = 0, wrong = size === ${bytes} ? undefined : size + ' bytes'
    while (wrong === undefined && at < size) {
      const piece = read.subarray(0, fs.readSync(file, read))
      const expected = cipher.update(zeros.subarray(0, piece.length))
      const other = piece.equals(expected) ? -1 : piece.findIndex((byte, i) => byte !== expected[i])
      if (piece.length === 0 || other >= 0) wrong = 'byte ' + (at + Math.max(0, other)) + ' is another one'
      at += piece.length
    }
    process.stdout.write(wrong ?? 'whole')`
}

function sandboxKeystream(name: string): string {
  const key = createHash('sha256').update(name).digest().subarray(0, 16).toString('hex')
  return `
    const fs = require('node:fs'), { createCipheriv } = require('node:crypto'), zeros = Buffer.alloc(1 << 20)
    const cipher = createCipheriv('aes-128-ctr', Buffer.from('${key}', 'hex'), Buffer.alloc(16))`
}

/** Compares the received bytes with the expected ones. */
export class ExpectedBytes {
  readonly #name: string
  readonly #stream: Cipheriv
  at = 0

  constructor(name: string) {
    this.#name = name
    this.#stream = keystream(name)
  }

  take(chunk: Buffer): void {
    const expected = this.#stream.update(zeros(chunk.length))
    if (!chunk.equals(expected)) {
      const first = chunk.findIndex((byte, i) => byte !== expected[i])
      throw new Error(`${this.#name}: byte ${this.at + first} is another one`)
    }
    this.at += chunk.length
  }
}

/** Passes bytes up to a mark and records how far they got. */
export class ByteGate {
  #allowed = 0
  #reached = 0
  #awaited = 0
  #wake: (() => void)[] = []

  allow(bytes: number): void {
    this.#allowed = Math.max(this.#allowed, bytes)
    this.#notify()
  }

  /**
   * Waits until that many bytes may pass. Bytes before the mark count as received, even when the chunk ends after it.
   */
  async pass(bytes: number): Promise<void> {
    this.#reach(bytes)
    while (this.#allowed < bytes) {
      await this.#change()
      this.#reach(bytes)
    }
  }

  /** Waits until that many bytes have passed. */
  async waitForBytes(bytes: number): Promise<void> {
    this.#awaited = bytes
    while (this.#reached < bytes) await this.#change()
  }

  toString(): string {
    return `${this.#reached} of ${this.#allowed} bytes that may pass, ${this.#awaited} are waited for`
  }

  /** Notifies only when the value changed: otherwise two waiters would wake each other forever. */
  #reach(bytes: number): void {
    const reached = Math.max(this.#reached, Math.min(bytes, this.#allowed))
    if (reached === this.#reached) return
    this.#reached = reached
    this.#notify()
  }

  #change(): Promise<void> {
    return new Promise((done) => this.#wake.push(done))
  }

  #notify(): void {
    const waiting = this.#wake
    this.#wake = []
    for (const wake of waiting) wake()
  }
}

/** Returns a function that reads a file from an offset, no faster than the gate allows. */
export function createGatedFile(name: string, bytes: number, gate: ByteGate): (offset: number) => Readable {
  async function* from(offset: number): AsyncGenerator<Buffer> {
    const stream = keystream(name, offset)
    for (let at = offset; at < bytes; ) {
      const chunk = stream.update(zeros(Math.min(CHUNK_BYTES, bytes - at)))
      at += chunk.length
      await gate.pass(at)
      yield chunk
    }
  }
  return (offset) => Readable.from(from(offset), { objectMode: false })
}

export function sha256Of(name: string, bytes: number): string {
  const hash = createHash('sha256')
  const stream = keystream(name)
  for (let left = bytes; left > 0; left -= CHUNK_BYTES)
    hash.update(stream.update(zeros(Math.min(CHUNK_BYTES, left))))
  return hash.digest('hex')
}
