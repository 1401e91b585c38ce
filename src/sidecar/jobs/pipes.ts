/**
 * Creates real pipes for programs. Node's own are sockets, which a program cannot open again: `echo > /dev/stderr`
 * fails on a socket. Node cannot create a pipe, but a shell can: it stores the text of a here-document in one.
 */
import { spawn } from 'node:child_process'
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs'
import type { Leaks } from './leaks.ts'

const { O_RDONLY, O_RDWR, O_WRONLY, O_NONBLOCK } = constants
/**
 * Refers to a file without opening it. Node has no constant for this flag. The value is the same on every Linux that
 * Node runs on.
 */
const O_PATH = 0o10000000

/** The descriptors that every shell can name. */
const SHELL_FDS = [3, 4, 5, 6, 7, 8, 9]
const SCRIPT = [
  `exec ${SHELL_FDS.map((fd) => `${fd}<<E`).join(' ')}`,
  ...SHELL_FDS.flatMap(() => ['x', 'E']),
  'echo ready; read -r x',
].join('\n')
const MAKE_TIMEOUT_MS = 2000

const MAX_IDLE = 64
const MAX_SHELLS = 4
/** A program with an input needs this many pipes. */
const MOST_PER_PROGRAM = 3

/** A pipe in one direction. The caller closes both ends. */
export interface Pipe {
  readonly ours: number
  /** This end is blocking, as programs expect it. */
  readonly theirs: number
  /**
   * Must be called once, when the sidecar's end is closed. `again`: no process in the sandbox holds the pipe any
   * longer.
   */
  release(again: boolean): void
}

export class PipePool {
  readonly #leaks: Leaks
  readonly #idle: number[] = []
  #filling: Promise<boolean> | undefined
  #waiting = 0
  #closed = false

  constructor(leaks: Leaks) {
    this.#leaks = leaks
  }

  /** Creates some pipes before they are needed. */
  fill(): void {
    void this.#fill()
  }

  /** Resolves when there are enough pipes for a program, or when none can be created. Then programs get sockets. */
  async ready(): Promise<void> {
    this.#waiting++
    try {
      while (this.#idle.length < MOST_PER_PROGRAM && (await this.#fill()));
    } finally {
      this.#waiting--
    }
  }

  /** Returns a pipe that the program writes and the sidecar reads. Returns `undefined` when none exists. */
  forOutput(): Pipe | undefined {
    return this.#take(O_RDONLY | O_NONBLOCK, O_WRONLY)
  }

  /** Returns a pipe that the sidecar writes and the program reads. */
  forInput(): Pipe | undefined {
    return this.#take(O_WRONLY | O_NONBLOCK, O_RDONLY)
  }

  close(): void {
    this.#closed = true
    for (const fd of this.#idle.splice(0)) closeSync(fd)
  }

  #take(ourFlags: number, theirFlags: number): Pipe | undefined {
    const fd = this.#idle.pop()
    if (fd === undefined) return undefined
    const path = `/proc/self/fd/${fd}`
    const opened: number[] = []
    try {
      // The first descriptor keeps the pipe open while each end is opened.
      opened.push(openSync(path, O_RDWR), openSync(path, ourFlags), openSync(path, theirFlags))
    } catch {
      for (const one of [fd, ...opened]) closeSync(one)
      return undefined
    }
    const [both, ours, theirs] = opened as [number, number, number]
    closeSync(both)
    return { ours, theirs, release: (again) => this.#giveBack(fd, again) }
  }

  #giveBack(fd: number, again: boolean): void {
    if (again && !this.#closed && this.#idle.length < MAX_IDLE) this.#idle.push(fd)
    else closeSync(fd)
  }

  /** Resolves with false when no pipe could be created. */
  #fill(): Promise<boolean> {
    this.#filling ??= this.#make().finally(() => {
      this.#filling = undefined
    })
    return this.#filling
  }

  async #make(): Promise<boolean> {
    const wanted = Math.ceil((this.#waiting * MOST_PER_PROGRAM) / SHELL_FDS.length)
    const shells = Math.min(MAX_SHELLS, Math.max(1, wanted))
    const made = await Promise.all(Array.from({ length: shells }, () => createShellPipes(this.#leaks)))
    const pipes = made.flat()
    if (this.#closed) for (const fd of pipes) closeSync(fd)
    else this.#idle.push(...pipes)
    return pipes.length > 0 && !this.#closed
  }
}

function createShellPipes(leaks: Leaks): Promise<number[]> {
  return new Promise((resolve) => {
    const stdio = leaks.cover(['pipe', 'pipe', 'ignore'])
    const shell = spawn('/bin/sh', ['-c', SCRIPT], { stdio, timeout: MAKE_TIMEOUT_MS })
    let pipes: number[] = []
    shell.once('error', () => resolve(pipes))
    shell.stdin?.on('error', () => {})
    shell.stdout?.once('data', () => {
      pipes = SHELL_FDS.flatMap((fd) => pipeOf(`/proc/${shell.pid}/fd/${fd}`))
      shell.stdin?.end()
    })
    // The pipes are used only when the shell no longer holds them.
    shell.once('exit', () => resolve(pipes))
  })
}

function pipeOf(path: string): number[] {
  try {
    const fd = openSync(path, O_PATH)
    if (fstatSync(fd).isFIFO()) {
      drainPipe(path)
      return [fd]
    }
    closeSync(fd)
  } catch {
    // This shell stores the texts of here-documents elsewhere.
  }
  return []
}

/** Linux drops the text when the shell exits. gVisor keeps it as long as a process holds the pipe. */
function drainPipe(path: string): void {
  const fd = openSync(path, O_RDONLY | O_NONBLOCK)
  try {
    readSync(fd, Buffer.alloc(16))
  } finally {
    closeSync(fd)
  }
}
