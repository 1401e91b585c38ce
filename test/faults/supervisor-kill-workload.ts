/** The work in a sandbox while its supervisor is killed. Each part expects exact bytes. */
import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { newId } from '../../src/lib/ids.ts'
import type { ApiClient } from '../../src/sdk/client.ts'
import { runJob } from '../../src/sdk/run-job.ts'
import type { JobResult } from '../../src/sidecar/protocol.ts'
import type { Random } from './supervisor-kill.ts'
import { ExpectedBytes, keystream } from './supervisor-kill-bytes.ts'
import type { WatchedPart } from './supervisor-kill-freeze.ts'

export const NODE_INSIDE = '/opt/craik/node'

/** Echoes its input unchanged and counts on standard error. Each number has a hash over all numbers before it. */
export const ECHO_PROGRAM = `
  require('node:fs').appendFileSync('starts', 'exec ' + process.pid + '\\n')
  const { createHash } = require('node:crypto')
  let count = 0, sum = '', bytes = 0
  const timer = setInterval(() => {
    sum = createHash('sha256').update(sum + ++count).digest('hex')
    process.stderr.write(count + ' ' + sum + '\\n')
  }, 4)
  process.stdin.on('data', (chunk) => { bytes += chunk.length; process.stdout.write(chunk) })
  process.stdin.on('end', () => {
    clearInterval(timer)
    process.stderr.write('end ' + count + ' ' + bytes + ' ' + process.pid + '\\n')
  })`

/** Counts and prints which key was pressed, until it is `q`. */
export const KEYS_PROGRAM = `
  require('node:fs').appendFileSync('starts', 'terminal ' + process.pid + '\\n')
  let count = 0
  const say = (text) => process.stdout.write(text + '\\n')
  process.stdin.setRawMode(true)
  const timer = setInterval(() => say('tick ' + ++count), 4)
  process.stdin.on('data', (chunk) => {
    for (const byte of chunk) {
      if (byte !== 0x71) { say('key ' + byte); continue }
      clearInterval(timer)
      say('end ' + count + ' ' + process.pid)
      process.exit(0)
    }
  })
  say('ready')`

export interface Scene {
  readonly client: ApiClient
  readonly sandbox: string
  readonly random: Random
  /** Aborts when the parts should end. */
  readonly over: AbortSignal
  /** Aborts when a part failed, so that the others do not wait for the rest. */
  readonly left: AbortSignal
}

export interface Part<T> extends WatchedPart {
  /** Resolves when the part ended as it should. Rejects as soon as anything is wrong. */
  readonly done: Promise<T>
}

interface JobSeen {
  readonly result: JobResult
  readonly pid: number
}

/** Produces chunks of random sizes at random intervals, until `over`. */
export function inputOf(
  name: string,
  random: Random,
  over: AbortSignal,
): Readable & { readonly bytes: number } {
  const sent = { bytes: 0 }
  async function* pieces(): AsyncGenerator<Buffer> {
    const stream = keystream(name)
    while (!over.aborted) {
      const piece = stream.update(Buffer.alloc(1 + Math.floor(random() ** 3 * 20_000)))
      sent.bytes += piece.length
      yield piece
      await sleep(Math.floor(random() * 12))
    }
  }
  const stream = Readable.from(pieces(), { objectMode: false })
  return Object.defineProperty(stream, 'bytes', { get: () => sent.bytes }) as ReturnType<typeof inputOf>
}

/** Checks the numbers that the echo program prints. */
export class CountedLines {
  #rest = ''
  #count = 0
  #sum = ''
  end: { readonly bytes: number; readonly pid: number } | undefined

  get count(): number {
    return this.#count
  }

  take(chunk: Buffer): void {
    const lines = (this.#rest + chunk.toString('latin1')).split('\n')
    this.#rest = lines.pop()!
    for (const line of lines) this.#line(line)
  }

  #line(line: string): void {
    if (this.end !== undefined) throw new Error(`a line after the last one: ${line}`)
    const end = /^end (\d+) (\d+) (\d+)$/.exec(line)
    if (end !== null) {
      if (Number(end[1]) !== this.#count)
        throw new Error(`${end[1]} lines were written, ${this.#count} arrived`)
      this.end = { bytes: Number(end[2]), pid: Number(end[3]) }
      return
    }
    this.#count++
    this.#sum = createHash('sha256').update(`${this.#sum}${this.#count}`).digest('hex')
    if (line !== `${this.#count} ${this.#sum}`) throw new Error(`line ${this.#count} arrived as: ${line}`)
  }
}

export function startEcho({ client, sandbox, random, over, left }: Scene): Part<JobSeen> {
  const name = `echo of ${sandbox}`
  const [stdout, stderr] = [new ExpectedBytes(name), new CountedLines()]
  const stdin = inputOf(name, random, over)
  const run = async () => {
    const argv = [NODE_INSIDE, '-e', ECHO_PROGRAM]
    const spec = { kind: 'exec', argv, stdin: true } as const
    const { result, lostBytes } = await runJob(client, sandbox, spec, {
      jobId: newId('job', Date.now()),
      signal: left,
      stdin,
      onStdout: (chunk) => stdout.take(chunk),
      onStderr: (chunk) => stderr.take(chunk),
    })
    const { end } = stderr
    if (lostBytes !== 0 || end?.bytes !== stdin.bytes || stdout.at !== stdin.bytes)
      throw new Error(
        `${stdin.bytes} bytes went in, ${end?.bytes} arrived, ${stdout.at} came back, ${lostBytes} were dropped`,
      )
    return { result, pid: end.pid }
  }
  const where = () =>
    `${stdin.bytes} bytes were given to be sent, ${stdout.at} came back, with ${stderr.count} lines`
  return { name: 'the echo', where, done: run() }
}

/** Types keys one after the other, and checks the keys and numbers that the program prints. */
export class TypedKeys {
  readonly #random: Random
  readonly #sent: number[] = []
  #seen = 0
  #count = 0
  #rest = ''
  readonly #ready = Promise.withResolvers<void>()
  pid: number | undefined

  constructor(random: Random) {
    this.#random = random
  }

  async *keys(over: AbortSignal): AsyncGenerator<Buffer> {
    // The terminal itself would echo until the program has switched it to raw mode.
    await this.#ready.promise
    while (!over.aborted) {
      // A letter other than `q`.
      const key = 0x61 + Math.floor(this.#random() * 16)
      this.#sent.push(key)
      yield Buffer.from([key])
      await sleep(Math.floor(this.#random() * 25))
    }
    yield Buffer.from('q')
  }

  take(chunk: Buffer): void {
    const lines = (this.#rest + chunk.toString('latin1')).split('\n')
    this.#rest = lines.pop()!
    // Each terminal on the way adds a carriage return to the end of a line.
    for (const line of lines) this.#line(line.replace(/\r+$/, ''))
  }

  get seen(): number {
    return this.#seen
  }

  where(): string {
    return `${this.#sent.length} keys were typed, ${this.#seen} arrived, with ${this.#count} lines`
  }

  requireAll(): number {
    if (this.pid === undefined || this.#seen !== this.#sent.length)
      throw new Error(`${this.#sent.length} keys were sent, ${this.#seen} arrived (${this.#rest})`)
    return this.pid
  }

  #line(line: string): void {
    const [what, number, pid] = line.split(' ')
    if (what === 'ready') this.#ready.resolve()
    else if (what === 'tick' && Number(number) === this.#count + 1) this.#count++
    else if (what === 'key' && Number(number) === this.#sent[this.#seen]) this.#seen++
    else if (what === 'end' && Number(number) === this.#count) this.pid = Number(pid)
    else throw new Error(`after ${this.#count} lines and ${this.#seen} keys arrived: ${JSON.stringify(line)}`)
  }
}

export function startTerminal({ client, sandbox, random, over, left }: Scene): Part<JobSeen> {
  const typed = new TypedKeys(random)
  const run = async () => {
    const argv = [NODE_INSIDE, '-e', KEYS_PROGRAM]
    const spec = { kind: 'terminal', argv, cols: 80, rows: 24 } as const
    const { result, lostBytes } = await runJob(client, sandbox, spec, {
      jobId: newId('job', Date.now()),
      signal: left,
      stdin: Readable.from(typed.keys(over), { objectMode: false }),
      onStdout: (chunk) => typed.take(chunk),
    })
    if (lostBytes !== 0) throw new Error(`${lostBytes} bytes of the terminal were dropped`)
    return { result, pid: typed.requireAll() }
  }
  return { name: 'the terminal', where: () => typed.where(), done: run() }
}

/** Runs one command after the other, each with its own id, so that none runs twice. Resolves with their number. */
export function startMany({ client, sandbox, over, left }: Scene): Part<number> {
  let n = 0
  const run = async () => {
    for (;;) {
      n++
      const argv = ['sh', '-c', `echo ${n} >> many; echo ${n}`]
      const job_id = newId('job', Date.now())
      const ran = await client.sandboxes.exec(sandbox, { argv, job_id }, { signal: left })
      if (ran.exit_code !== 0 || ran.stdout.data !== `${n}\n`)
        throw new Error(`command ${n}: ${JSON.stringify(ran)}`)
      if (over.aborted) return n
      await sleep(50)
    }
  }
  return { name: 'one command after the other', where: () => `number ${n}`, done: run() }
}
