/** A program with pipes for its input and its two outputs. It leads a process group of its own. */
import { type ChildProcess, spawn } from 'node:child_process'
import { constants } from 'node:os'
import type { Readable, Writable } from 'node:stream'
import { SidecarError } from '../router.ts'
import { ChildPipes, type ChildStreams } from './child-pipes.ts'
import type { Leaks } from './leaks.ts'
import { preferForOutOfMemory } from './oom-score.ts'
import type { PipePool } from './pipes.ts'
import { descendantsOfGroup, isRunning, membersOfGroup, type ProcessMark } from './proc-stat.ts'
import { type Launch, NotStarted, type Program, type ProgramEnd, type ProgramEvents } from './program.ts'

/**
 * How long a pipe may stay open after its program has exited. By then the pipe contains everything that the program
 * itself wrote, and a process that it left behind may hold the pipe forever.
 */
const PIPE_GRACE_MS = 200

/** The system has no processes, memory or descriptors left. Nothing ran, and a later attempt may succeed. */
const BUSY = new Set(['EAGAIN', 'ENOMEM', 'EMFILE', 'ENFILE'])

/** Rejects with `NotStarted`, or with `busy` when the sandbox has no process, memory or descriptor left for it. */
export async function startChild(
  launch: Launch,
  withInput: boolean,
  { pipes: pool, leaks }: { readonly pipes: PipePool; readonly leaks: Leaks },
  events: ProgramEvents,
): Promise<Program> {
  await pool.ready()
  const pipes = new ChildPipes(pool, withInput)
  let child: ChildProcess
  try {
    child = spawn(launch.argv[0]!, launch.argv.slice(1), {
      cwd: launch.cwd,
      env: launch.env,
      detached: true,
      stdio: leaks.cover(pipes.stdio),
    })
  } catch (error) {
    pipes.abandon()
    throw notStarted(error)
  }
  if (child.pid === undefined) {
    pipes.abandon()
    const error = await new Promise((resolve) => child.once('error', resolve))
    throw notStarted(error)
  }
  preferForOutOfMemory(child.pid)
  return new ChildProgram(child, child.pid, pipes.attach(child), events)
}

class ChildProgram implements Program {
  readonly pid: number
  readonly hangUpSignal = 'SIGTERM'
  readonly #stdin: Writable | undefined
  readonly #events: ProgramEvents
  readonly #open: Set<Readable>
  /**
   * Descendants in groups of their own. Once their parent has exited, nothing shows where they came from. Therefore
   * they are recorded before that.
   */
  readonly #strays = new Map<number, ProcessMark>()
  #end: ProgramEnd | undefined
  #grace: NodeJS.Timeout | undefined
  #paused = false
  #done = false

  constructor(
    child: ChildProcess,
    pid: number,
    { stdin, stdout, stderr }: ChildStreams,
    events: ProgramEvents,
  ) {
    this.pid = pid
    this.#stdin = stdin
    this.#events = events
    this.#open = new Set([stdout, stderr])
    this.#read('stdout', stdout)
    this.#read('stderr', stderr)
    child.on('error', () => {})
    // A program can close its input, or exit, before it has read everything. The rest is dropped.
    stdin?.on('error', () => events.onInputDrain())
    stdin?.on('drain', () => events.onInputDrain())
    child.once('exit', (exitCode, signal) => {
      this.#end = { exitCode, signal }
      events.onInputDrain()
      this.#startGrace()
      events.onExit?.(this.#end)
      this.#finishIfDone()
    })
  }

  pause(): void {
    this.#paused = true
    for (const pipe of this.#open) pipe.pause()
    clearTimeout(this.#grace)
  }

  resume(): void {
    if (!this.#paused) return
    this.#paused = false
    for (const pipe of this.#open) pipe.resume()
    if (this.#end) this.#startGrace()
  }

  write(chunk: Buffer): boolean {
    if (!this.#stdin?.writable || this.#end) return true
    return this.#stdin.write(chunk)
  }

  endInput(): void {
    this.#stdin?.end()
  }

  signal(signal: NodeJS.Signals): void {
    if (!(signal in constants.signals)) throw new SidecarError('usage', `unknown signal: ${signal}`)
    send(-this.pid, signal)
  }

  signalAll(signal: NodeJS.Signals): void {
    for (const stray of descendantsOfGroup(this.pid)) this.#strays.set(stray.pid, stray)
    send(-this.pid, signal)
    for (const stray of this.#strays.values()) if (isRunning(stray)) send(stray.pid, signal)
  }

  isAlive(): boolean {
    return this.#isGroupAlive() || [...this.#strays.values()].some(isRunning)
  }

  #isGroupAlive(): boolean {
    try {
      process.kill(-this.pid, 0)
      // The group exists, but its processes may be zombies that no parent has reaped.
      return membersOfGroup(this.pid).length > 0
    } catch {
      return false
    }
  }

  release(): void {
    for (const pipe of this.#open) {
      pipe.removeAllListeners('data')
      pipe.resume()
    }
  }

  #read(name: 'stdout' | 'stderr', pipe: Readable): void {
    pipe.on('data', (chunk: Buffer) => {
      if (!this.#done) this.#events.onOutput(name, chunk)
    })
    pipe.on('error', () => {})
    pipe.once('close', () => {
      this.#open.delete(pipe)
      this.#finishIfDone()
    })
  }

  /** The time runs only while the sidecar reads the output. */
  #startGrace(): void {
    clearTimeout(this.#grace)
    if (!this.#paused) this.#grace = setTimeout(() => this.#finish(), PIPE_GRACE_MS)
  }

  #finishIfDone(): void {
    if (this.#end && this.#open.size === 0) this.#finish()
  }

  #finish(): void {
    if (this.#done || !this.#end) return
    this.#done = true
    clearTimeout(this.#grace)
    this.#stdin?.destroy()
    this.#events.onEnd(this.#end)
    this.release()
  }
}

function send(to: number, signal: NodeJS.Signals): void {
  try {
    process.kill(to, signal)
  } catch {
    // The process has exited.
  }
}

function notStarted(error: unknown): Error {
  const code = (error as NodeJS.ErrnoException).code ?? 'unknown'
  if (BUSY.has(code))
    return new SidecarError(
      'busy',
      `the sandbox has no process or memory left to start the program (${code})`,
    )
  return new NotStarted(code)
}
