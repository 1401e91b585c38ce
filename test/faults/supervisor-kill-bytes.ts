/** Bytes that both ends can make: a lost, doubled or exchanged one is found at its place. */
import { type Cipheriv, createCipheriv, createHash } from 'node:crypto'
import { Readable } from 'node:stream'

const BLOCK_BYTES = 16
const CHUNK_BYTES = 256 * 1024

/** AES in counter mode over zeros, so that it can be begun anywhere. */
export function keystream(name: string, offset = 0): Cipheriv {
  const key = createHash('sha256').update(name).digest().subarray(0, 16)
  const counter = Buffer.alloc(BLOCK_BYTES)
  counter.writeBigUInt64BE(BigInt(Math.floor(offset / BLOCK_BYTES)), 8)
  const cipher = createCipheriv('aes-128-ctr', key, counter)
  cipher.update(Buffer.alloc(offset % BLOCK_BYTES))
  return cipher
}

/** A program for the inside that writes so many bytes of the same to a file. */
export function keystreamProgram(name: string, bytes: number, file: string): string {
  const key = createHash('sha256').update(name).digest().subarray(0, 16).toString('hex')
  return `
    const fs = require('node:fs'), { createCipheriv } = require('node:crypto')
    const cipher = createCipheriv('aes-128-ctr', Buffer.from('${key}', 'hex'), Buffer.alloc(16))
    const zeros = Buffer.alloc(1 << 20), file = fs.openSync('${file}', 'wx')
    for (let left = ${bytes}; left > 0; left -= zeros.length)
      fs.writeSync(file, cipher.update(zeros.subarray(0, Math.min(left, zeros.length))))`
}

/** Compares what arrives with what has to. */
export class ExpectedBytes {
  readonly #name: string
  readonly #stream: Cipheriv
  at = 0

  constructor(name: string) {
    this.#name = name
    this.#stream = keystream(name)
  }

  take(chunk: Buffer): void {
    const expected = this.#stream.update(Buffer.alloc(chunk.length))
    if (!chunk.equals(expected)) {
      const first = chunk.findIndex((byte, i) => byte !== expected[i])
      throw new Error(`${this.#name}: byte ${this.at + first} is another one`)
    }
    this.at += chunk.length
  }
}

/** Lets bytes through up to a mark, and tells how far they got. */
export class Gate {
  #allowed = 0
  #reached = 0
  #wake: (() => void)[] = []

  allow(bytes: number): void {
    this.#allowed = Math.max(this.#allowed, bytes)
    this.#notify()
  }

  /** Waits until so many may pass; then they have. */
  async pass(bytes: number): Promise<void> {
    while (this.#allowed < bytes) await this.#change()
    this.#reached = Math.max(this.#reached, bytes)
    this.#notify()
  }

  async reached(bytes: number): Promise<void> {
    while (this.#reached < bytes) await this.#change()
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

/** The bytes of a file from an offset on, no faster than the gate lets them through. */
export function gatedFile(name: string, bytes: number, gate: Gate): (offset: number) => Readable {
  async function* from(offset: number): AsyncGenerator<Buffer> {
    const stream = keystream(name, offset)
    for (let at = offset; at < bytes; ) {
      const chunk = stream.update(Buffer.alloc(Math.min(CHUNK_BYTES, bytes - at)))
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
    hash.update(stream.update(Buffer.alloc(Math.min(CHUNK_BYTES, left))))
  return hash.digest('hex')
}
