/** A program on a terminal of its own. */
import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, constants as files, openSync } from 'node:fs'
import { constants } from 'node:os'
import { ReadStream } from 'node:tty'
import { SidecarError } from '../router.ts'
import { findProgram } from './find-program.ts'
import type { Leaks } from './leaks.ts'
import { preferForOutOfMemory } from './oom-score.ts'
import { foregroundGroup, membersOfSession } from './proc-stat.ts'
import type { Launch, Program, ProgramEnd, ProgramEvents } from './program.ts'
import type { PtyBinding } from './pty-binding.ts'

export interface WindowSize {
  readonly cols: number
  readonly rows: number
}

/** How long processes that the program left on the terminal may hold it after the program's exit. */
const TERMINAL_GRACE_MS = 200
const SETTING_TIMEOUT_MS = 500
const END_OF_INPUT = Buffer.from([4])

/** A session leader that opens a terminal gets it as its controlling terminal. Then Ctrl-C and hang-ups reach it. */
const TAKE_TERMINAL = ': <"$1"; shift; exec "$@"'

/**
 * Rejects with `NotStarted`, or with `busy` when the sandbox has no process or terminal left. This does not use the
 * binding's own `fork`, which starts a thread for each terminal and ends the sidecar when it cannot get one.
 */
export async function startOnTerminal(
  pty: PtyBinding,
  leaks: Leaks,
  launch: Launch,
  size: WindowSize,
  events: ProgramEvents,
): Promise<Program> {
  findProgram(launch)
  const { master, end, path } = openTerminal(pty, leaks, size)
  const line = new ReadStream(master)
  line.once('close', () => leaks.delete(master))
  try {
    await setForText(leaks, end)
    const child = spawn('/bin/sh', ['-c', TAKE_TERMINAL, 'sh', path, ...launch.argv], {
      cwd: launch.cwd,
      env: launch.env,
      detached: true,
      stdio: leaks.cover([end, end, end]),
    })
    if (child.pid === undefined) throw await new Promise((resolve) => child.once('error', resolve))
    preferForOutOfMemory(child.pid)
    // This end stays open until the program exits. Otherwise a program that closes its own end first would get a
    // hang-up, which ends it before it can return its own exit code.
    child.once('exit', () => closeSync(end))
    return new TerminalProgram(pty, master, line, child, child.pid, events)
  } catch (error) {
    closeSync(end)
    line.destroy()
    throw toBusyError(error)
  }
}

class TerminalProgram implements Program {
  readonly pid: number
  readonly hangUpSignal = 'SIGHUP'
  readonly #pty: PtyBinding
  readonly #master: number
  readonly #line: ReadStream
  readonly #events: ProgramEvents
  #end: ProgramEnd | undefined
  #closed = false
  #done = false

  constructor(
    pty: PtyBinding,
    master: number,
    line: ReadStream,
    child: ChildProcess,
    pid: number,
    events: ProgramEvents,
  ) {
    this.pid = pid
    this.#pty = pty
    this.#master = master
    this.#line = line
    this.#events = events
    line.on('data', (chunk: Buffer) => {
      if (!this.#done) events.onOutput('stdout', chunk)
    })
    line.on('drain', () => events.onInputDrain())
    // The last read fails when no process holds the other end any longer.
    line.on('error', () => line.destroy())
    line.once('close', () => {
      this.#closed = true
      events.onInputDrain()
      this.#finishIfDone()
    })
    child.on('error', () => {})
    child.once('exit', (exitCode, signal) => {
      this.#end = { exitCode, signal }
      if (!this.#closed) setTimeout(() => line.destroy(), TERMINAL_GRACE_MS)
      this.#finishIfDone()
    })
  }

  /** A terminal is never paused: output without a reader is dropped. */
  pause(): void {}

  resume(): void {}

  write(chunk: Buffer): boolean {
    return this.#closed || !this.#line.writable ? true : this.#line.write(chunk)
  }

  endInput(): void {
    this.write(END_OF_INPUT)
  }

  signal(signal: NodeJS.Signals): void {
    if (!(signal in constants.signals)) throw new SidecarError('usage', `unknown signal: ${signal}`)
    send(-(foregroundGroup(this.pid) ?? this.pid), signal)
  }

  signalAll(signal: NodeJS.Signals): void {
    for (const pid of membersOfSession(this.pid)) send(pid, signal)
  }

  isAlive(): boolean {
    return membersOfSession(this.pid).length > 0
  }

  resize(cols: number, rows: number): void {
    if (!this.#closed) this.#pty.resize(this.#master, cols, rows)
  }

  release(): void {}

  #finishIfDone(): void {
    if (!this.#end || !this.#closed || this.#done) return
    this.#done = true
    this.#events.onEnd(this.#end)
  }
}

/** Opens the program's end again: it is blocking, and no other child inherits it. */
function openTerminal(
  pty: PtyBinding,
  leaks: Leaks,
  { cols, rows }: WindowSize,
): { readonly master: number; readonly end: number; readonly path: string } {
  try {
    const { master, slave, pty: path } = pty.open(cols, rows)
    leaks.add(master)
    try {
      return { master, end: openSync(path, files.O_RDWR | files.O_NOCTTY), path }
    } catch (error) {
      leaks.delete(master)
      closeSync(master)
      throw error
    } finally {
      closeSync(slave)
    }
  } catch (error) {
    throw toBusyError(error)
  }
}

/** Makes the erase key remove a whole UTF-8 character. Without `stty`, it removes one byte. */
function setForText(leaks: Leaks, end: number): Promise<void> {
  return new Promise((resolve) => {
    const stdio = leaks.cover([end, 'ignore', 'ignore'])
    const stty = spawn('stty', ['iutf8'], { stdio, timeout: SETTING_TIMEOUT_MS })
    stty.once('error', () => resolve())
    stty.once('exit', () => resolve())
  })
}

function toBusyError(cause: unknown): SidecarError {
  if (cause instanceof SidecarError) return cause
  return new SidecarError('busy', 'the sandbox has no process or terminal left to start the program', {
    cause,
  })
}

function send(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch {
    // The process has exited.
  }
}
