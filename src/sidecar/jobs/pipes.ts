/**
 * Real pipes for programs. Node's own are sockets, which a program cannot open again: `echo > /dev/stderr` fails on
 * one. Node cannot make a pipe, but a shell can: it keeps the text of a here-document in one.
 */
import { spawn } from 'node:child_process'
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs'
import type { Leaks } from './leaks.ts'

const { O_RDONLY, O_RDWR, O_WRONLY, O_NONBLOCK } = constants
/** Names a file without opening it; Node has no name for it. The same number on every Linux that Node runs on. */
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
/** A program with an input needs that many. */
const MOST_PER_PROGRAM = 3

/** One direction. Both ends are the caller's to close. */
export interface Pipe {
  readonly ours: number
  /** Blocking, as programs expect it. */
  readonly theirs: number
  /** To be called once, when our end is closed. `again`: nothing inside holds it any more. */
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

  /** Makes some before they are needed. */
  fill(): void {
    void this.#fill()
  }

  /** Resolves when a program can be given its pipes, or when none can be made: then there are sockets. */
  async ready(): Promise<void> {
    this.#waiting++
    try {
      while (this.#idle.length < MOST_PER_PROGRAM && (await this.#fill()));
    } finally {
      this.#waiting--
    }
  }

  /** What the program writes, we read. Undefined: there is none to be had. */
  forOutput(): Pipe | undefined {
    return this.#take(O_RDONLY | O_NONBLOCK, O_WRONLY)
  }

  /** What we write, the program reads. */
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
      // Holds the pipe open while it is opened one end at a time.
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

  /** False: none could be made. */
  #fill(): Promise<boolean> {
    this.#filling ??= this.#make().finally(() => {
      this.#filling = undefined
    })
    return this.#filling
  }

  async #make(): Promise<boolean> {
    const wanted = Math.ceil((this.#waiting * MOST_PER_PROGRAM) / SHELL_FDS.length)
    const shells = Math.min(MAX_SHELLS, Math.max(1, wanted))
    const made = await Promise.all(Array.from({ length: shells }, () => pipesOfAShell(this.#leaks)))
    const pipes = made.flat()
    if (this.#closed) for (const fd of pipes) closeSync(fd)
    else this.#idle.push(...pipes)
    return pipes.length > 0 && !this.#closed
  }
}

function pipesOfAShell(leaks: Leaks): Promise<number[]> {
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
    // Used only when the shell holds them no more.
    shell.once('exit', () => resolve(pipes))
  })
}

function pipeOf(path: string): number[] {
  try {
    const fd = openSync(path, O_PATH)
    if (fstatSync(fd).isFIFO()) {
      empty(path)
      return [fd]
    }
    closeSync(fd)
  } catch {
    // A shell that keeps its texts elsewhere.
  }
  return []
}

/** Linux drops the text when the shell is gone; gVisor keeps it for as long as anybody holds the pipe. */
function empty(path: string): void {
  const fd = openSync(path, O_RDONLY | O_NONBLOCK)
  try {
    readSync(fd, Buffer.alloc(16))
  } finally {
    closeSync(fd)
  }
}
