/** Runs a program with its arguments, without a shell, within limits of time and output. */
import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import { accessSync, closeSync, constants, existsSync, openSync, statSync } from 'node:fs'
import { resolve } from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { hostPath } from './host-programs.ts'
import { listInherited } from './inherited-descriptors.ts'

type Sink = (chunk: Buffer) => void | Promise<void>

export interface RunOptions {
  readonly argv: readonly string[]
  /** The name that the program is called by (default: its path). */
  readonly argv0?: string
  readonly cwd: string
  /** The complete environment, to which nothing is added. The program is searched in its PATH. */
  readonly env: Readonly<Record<string, string>>
  readonly timeoutMs: number
  readonly signal?: AbortSignal
  /** The first signal for the group when `signal` aborts (default: SIGTERM). Ctrl-C is passed on as SIGINT. */
  readonly cancelSignal?: 'SIGINT' | 'SIGTERM'
  /** Kills the group with SIGKILL at once, whatever is left of the grace period. */
  readonly killSignal?: AbortSignal
  /** By default, the program has no input. */
  readonly stdin?: 'inherit' | 'ignore' | Buffer
  /** Called with one chunk at a time. The program has to wait until the returned promise settles. */
  readonly onStdout: Sink
  readonly onStderr: Sink
  /** The grace period: between SIGTERM and SIGKILL, and for a pipe that stays open after its program has ended. */
  readonly graceMs?: number
  /** The limit for stdout and stderr together. */
  readonly maxOutputBytes?: number
  /**
   * The bytes that the program can read from descriptors 3, 4 and so on. If it is set, even to an empty list, the
   * program gets none of the descriptors that this process itself was started with.
   */
  readonly inputs?: readonly Buffer[]
  /** Gets what the program writes to the descriptor after its inputs. This does not count as output. */
  readonly onStatus?: Sink
  /**
   * The user and group that the program runs as, without further groups (default: those of this process). Only root can
   * choose.
   */
  readonly user?: { readonly uid: number; readonly gid: number }
  /** Sends the first signal, which programs can handle (default: to the whole group). */
  readonly sendFirstSignal?: (pid: number, signal: NodeJS.Signals) => void
}

type NotStarted = {
  readonly end: 'not_started'
  readonly reason: 'missing' | 'not_executable' | 'bad_cwd' | 'other'
  readonly message: string
}

type RunEnd =
  | { readonly end: 'exited'; readonly exitCode: number }
  | { readonly end: 'signalled'; readonly signal: NodeJS.Signals }
  | { readonly end: 'timeout' }
  | { readonly end: 'cancelled' }
  | { readonly end: 'output_limit' }
  | NotStarted

export type RunResult = RunEnd & { readonly durationMs: number }

/** `setTimeout` fires at once for any longer time. */
const MAX_TIMER_MS = 2 ** 31 - 1

/** How long the kernel has to carry out a SIGKILL. After that, Craik no longer waits for the process. */
const KILL_WAIT_MS = 5000

const GROUP_POLL_MS = 20

/**
 * How much is still read after a program has ended. A pipe contains less (208 KiB by default on Linux), so everything
 * that the program itself wrote is delivered. A process that it started and that still runs cannot write forever.
 */
const MAX_LAST_BYTES = 4 * 1024 * 1024

/**
 * Runs a program to its end and reports how it ended. Rejects only with the error of a sink, after stopping the
 * program.
 *
 * The program leads a process group and session of its own, so it has no controlling terminal. On timeout, abort and
 * output limit, the whole group gets SIGTERM, and SIGKILL after the grace period. A process that has left the group, or
 * that may not be signaled, continues to run. When the program ends by itself, its group gets no signal. Background
 * processes that it started continue, but after the grace period nothing reads what they write. An abort or timeout
 * from then on only shortens that reading, because the program already has its result.
 */
export async function runChild(options: RunOptions): Promise<RunResult> {
  const startedMs = performance.now()
  const end = await run(options)
  return { ...end, durationMs: Math.round(performance.now() - startedMs) }
}

async function run(options: RunOptions): Promise<RunEnd> {
  if (options.signal?.aborted || options.killSignal?.aborted) return { end: 'cancelled' }
  const child = await start(options)
  if ('end' in child) return child

  const graceMs = options.graceMs ?? 1000
  let exit: RunEnd | undefined
  const exited = new Promise<void>((done) => {
    child.once('exit', (code, signal) => {
      exit = signal === null ? { end: 'exited', exitCode: code! } : { end: 'signalled', signal }
      done()
    })
  })

  let stopped: RunEnd | undefined
  let failure: { readonly error: unknown } | undefined
  const isStopRequested = Promise.withResolvers<void>()
  let bytesLeft = options.maxOutputBytes ?? Number.POSITIVE_INFINITY

  const taps = [
    new OutputReader(child.stdout!, (chunk) => deliver(chunk, options.onStdout), graceMs),
    new OutputReader(child.stderr!, (chunk) => deliver(chunk, options.onStderr), graceMs),
    ...createStatusReaders(child, options, graceMs),
  ]
  const closeTaps = () => {
    for (const tap of taps) tap.close()
  }
  const fail = (error: unknown) => {
    failure ??= { error }
    closeTaps()
    isStopRequested.resolve()
  }
  const deliver = async (chunk: Buffer, sink: Sink) => {
    const allowed = chunk.subarray(0, bytesLeft)
    bytesLeft -= allowed.length
    try {
      if (allowed.length > 0) await sink(allowed)
    } catch (error) {
      return fail(error)
    }
    if (allowed.length === chunk.length) return
    stopped ??= { end: 'output_limit' }
    closeTaps()
    isStopRequested.resolve()
  }
  const stop = (end: RunEnd) => {
    if (exit !== undefined) return closeTaps()
    stopped ??= end
    isStopRequested.resolve()
  }

  using _deadline = startDeadline(options.timeoutMs, () => stop({ end: 'timeout' }))
  const onAbort = () => stop({ end: 'cancelled' })
  const requests = [options.signal, options.killSignal].filter((signal) => signal !== undefined)
  for (const signal of requests) signal.addEventListener('abort', onAbort, { once: true })
  // A signal may have aborted while the program was starting.
  if (requests.some((signal) => signal.aborted)) onAbort()
  try {
    const drained = Promise.all(taps.map((tap) => tap.drain().catch(fail)))
    await Promise.race([exited, isStopRequested.promise])
    if (exit === undefined) {
      const first = stopped?.end === 'cancelled' ? (options.cancelSignal ?? 'SIGTERM') : 'SIGTERM'
      const sendFirst = options.sendFirstSignal ?? signalGroup
      await endGroup(child.pid!, exited, graceMs, () => sendFirst(child.pid!, first), options.killSignal)
    }
    for (const tap of taps) tap.expectEnd()
    await drained
  } finally {
    for (const signal of requests) signal.removeEventListener('abort', onAbort)
    child.stdin?.destroy()
    for (const pipe of child.stdio.slice(3)) pipe?.destroy()
    child.unref()
  }
  if (failure !== undefined) throw failure.error
  return stopped ?? exit!
}

function createStatusReaders(
  child: ChildProcess,
  { inputs = [], onStatus }: RunOptions,
  graceMs: number,
): OutputReader[] {
  const stream = child.stdio[3 + inputs.length] as Readable | undefined
  return stream && onStatus ? [new OutputReader(stream, async (chunk) => onStatus(chunk), graceMs)] : []
}

/** Reads one output pipe of a program. */
class OutputReader {
  readonly #stream: Readable
  readonly #deliver: (chunk: Buffer) => Promise<void>
  #ending = false
  #closed = false
  #lastBytes = MAX_LAST_BYTES
  #timeoutMs: number
  #waitingSinceMs: number | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(stream: Readable, deliver: (chunk: Buffer) => Promise<void>, graceMs: number) {
    this.#stream = stream
    this.#deliver = deliver
    this.#timeoutMs = graceMs
  }

  /** Delivers chunks one after the other until the pipe ends or is closed. */
  async drain(): Promise<void> {
    try {
      this.#startWaiting()
      for await (const chunk of this.#stream as AsyncIterable<Buffer>) {
        this.#stopWaiting()
        await this.#deliver(chunk)
        if (this.#ending) this.#lastBytes -= chunk.length
        if (this.#lastBytes <= 0) this.close()
        this.#startWaiting()
      }
    } catch (error) {
      if (!this.#closed) throw error
    } finally {
      this.#stopWaiting()
    }
  }

  /**
   * Called when the program has ended. From then on, waits for the pipe no longer than the grace period. The time in
   * sinks does not count.
   */
  expectEnd(): void {
    this.#ending = true
    if (this.#waitingSinceMs !== undefined) this.#startWaiting()
  }

  close(): void {
    this.#closed = true
    this.#stream.destroy()
  }

  #startWaiting(): void {
    const sinceMs = performance.now()
    this.#waitingSinceMs = sinceMs
    if (!this.#ending) return
    // Timers run before input. So a busy process checks once more for input before it closes the pipe.
    const lookOnceMore = () => setImmediate(() => this.#waitingSinceMs === sinceMs && this.close())
    this.#timer = setTimeout(lookOnceMore, Math.max(0, this.#timeoutMs))
  }

  #stopWaiting(): void {
    if (this.#ending && this.#waitingSinceMs !== undefined) {
      this.#timeoutMs -= performance.now() - this.#waitingSinceMs
    }
    this.#waitingSinceMs = undefined
    clearTimeout(this.#timer)
  }
}

/**
 * Stops a process group: a signal that processes can handle, then SIGKILL for those that remain after the grace period.
 * The group's number is safe to signal for as long as the group has been seen to have members, because a pid is not
 * reused until then.
 */
async function endGroup(
  pid: number,
  leaderExited: Promise<void>,
  graceMs: number,
  sendFirst: () => void,
  killSignal?: AbortSignal,
): Promise<void> {
  using killRequest = abortOf(killSignal)
  if (!killSignal?.aborted) sendFirst()
  let leaderGone = false
  const noteExit = leaderExited.then(() => {
    leaderGone = true
  })
  const graceEndsMs = performance.now() + graceMs
  while (!killSignal?.aborted && performance.now() < graceEndsMs) {
    const leftMs = graceEndsMs - performance.now()
    await (leaderGone
      ? waitFor(killRequest.promise, Math.min(GROUP_POLL_MS, leftMs))
      : waitFor(Promise.race([noteExit, killRequest.promise]), leftMs))
    if (leaderGone && !signalGroup(pid, 0)) return
  }
  signalGroup(pid, 'SIGKILL')
  await waitFor(noteExit, KILL_WAIT_MS)
}

/** Returns a promise that resolves on abort. Disposing it removes the listener. */
function abortOf(signal: AbortSignal | undefined): Disposable & { readonly promise: Promise<void> } {
  const { promise, resolve: onAbort } = Promise.withResolvers<void>()
  const listener = () => onAbort()
  signal?.addEventListener('abort', listener, { once: true })
  return { promise, [Symbol.dispose]: () => signal?.removeEventListener('abort', listener) }
}

/** Returns false when the group has no member that may be signaled. */
function signalGroup(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(-pid, signal)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ESRCH' || code === 'EPERM') return false
    throw error
  }
}

async function waitFor(event: Promise<void>, maxMs: number): Promise<void> {
  const enough = new AbortController()
  const elapsed = sleep(Math.max(0, maxMs), undefined, { signal: enough.signal }).catch(() => {})
  await Promise.race([event, elapsed])
  enough.abort()
}

function startDeadline(ms: number, then: () => void): Disposable {
  const endMs = performance.now() + ms
  let timer: NodeJS.Timeout
  const arm = () => {
    const leftMs = endMs - performance.now()
    if (leftMs <= 0) then()
    else timer = setTimeout(arm, Math.min(Math.ceil(leftMs), MAX_TIMER_MS))
  }
  timer = setTimeout(arm, Math.min(Math.max(0, ms), MAX_TIMER_MS))
  return { [Symbol.dispose]: () => clearTimeout(timer) }
}

async function start(options: RunOptions): Promise<ChildProcess | NotStarted> {
  const { argv, argv0, cwd, env, stdin = 'ignore', inputs = [], user } = options
  const [program, ...args] = argv
  if (program === undefined || program === '') return notStarted('missing', 'no program to run')
  if ([...argv, cwd, ...Object.entries(env).flat()].some((text) => text.includes('\0'))) {
    return notStarted('other', 'an argument, the folder or the environment contains a NUL byte')
  }
  const stdio: StdioOptions = [Buffer.isBuffer(stdin) ? 'pipe' : stdin, 'pipe', 'pipe']
  for (const _ of inputs) stdio.push('pipe')
  if (options.onStatus) stdio.push('pipe')
  const ours = stdio.length
  let nothing: number | undefined
  try {
    for (const descriptor of options.inputs === undefined ? [] : listInherited()) {
      if (descriptor < ours) continue
      while (stdio.length <= descriptor) stdio.push('ignore')
      nothing ??= openSync('/dev/null', 'r')
      stdio[descriptor] = nothing
    }
    const child = spawn(program, args, { cwd, env, stdio, detached: true, ...(argv0 && { argv0 }), ...user })
    const provided = Buffer.isBuffer(stdin) ? [[0, stdin] as const] : []
    for (const [descriptor, content] of [...provided, ...inputs.map((input, i) => [i + 3, input] as const)]) {
      const pipe = child.stdio[descriptor] as Writable | undefined
      // A program may end without reading its input, which is not an error.
      pipe?.on('error', () => {})
      pipe?.end(content)
    }
    await once(child, 'spawn')
    return child
  } catch (error) {
    return explainStartFailure((error as NodeJS.ErrnoException).code ?? 'unknown error', program, cwd)
  } finally {
    if (nothing !== undefined) closeSync(nothing)
  }
}

/**
 * Explains a failed start. The system reports the same error whether the folder or the program is missing or not
 * accessible.
 */
function explainStartFailure(code: string, program: string, cwd: string): NotStarted {
  const folderProblem = ['ENOENT', 'ENOTDIR', 'EACCES'].includes(code) ? problemWithFolder(cwd) : undefined
  if (folderProblem !== undefined) return notStarted('bad_cwd', folderProblem)
  const name = JSON.stringify(program)
  if (code === 'ENOENT' && program.includes('/') && existsSync(resolve(cwd, program))) {
    return notStarted('not_executable', `${name} needs an interpreter that does not exist on this machine`)
  }
  if (code === 'ENOENT' || code === 'ENOTDIR') return notStarted('missing', `program ${name} not found`)
  if (code === 'EACCES') return notStarted('not_executable', `${name} is not executable`)
  if (code === 'E2BIG')
    return notStarted('other', 'arguments and environment are longer than this system allows')
  return notStarted('other', `cannot start ${name} (${code})`)
}

function problemWithFolder(cwd: string): string | undefined {
  try {
    if (!statSync(cwd).isDirectory()) return 'the working folder is not a folder'
    accessSync(cwd, constants.X_OK)
    return undefined
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    return code === 'EACCES'
      ? 'no permission to enter the working folder'
      : 'the working folder does not exist'
  }
}

function notStarted(reason: NotStarted['reason'], message: string): NotStarted {
  return { end: 'not_started', reason, message }
}

const PASSED_ON = new Set([
  'PATH',
  'HOME',
  'USER',
  'LOGNAME',
  'SHELL',
  'LANG',
  'TZ',
  'TERM',
  'TMPDIR',
  'COLORTERM',
  'NO_COLOR',
])

/**
 * Returns the environment of a program that Craik executes on the host for itself. Scripts, and programs that it starts
 * in turn, are searched only in system folders.
 */
export function hostEnvironment(source: NodeJS.ProcessEnv): Record<string, string> {
  return { ...cleanEnvironment(source), PATH: hostPath() }
}

/**
 * Returns the environment of an operator's command: these variables and `LC_*`. So tokens in Craik's own environment
 * never reach the command.
 */
export function cleanEnvironment(source: NodeJS.ProcessEnv): Record<string, string> {
  const clean: Record<string, string> = {}
  for (const [name, value] of Object.entries(source)) {
    if (value !== undefined && (PASSED_ON.has(name) || name.startsWith('LC_'))) clean[name] = value
  }
  return clean
}
