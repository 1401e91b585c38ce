/** The interface of a running program for its job: a child with pipes, or a program on a terminal. */

export interface Program {
  readonly pid: number
  /** `pause` and `resume` control the program's output. */
  pause(): void
  resume(): void
  /** Returns false when the caller must wait for `onInputDrain` before the next chunk. */
  write(chunk: Buffer): boolean
  endInput(): void
  /** Sends a signal to every process that a Ctrl-C would reach. Throws when the signal does not exist. */
  signal(signal: NodeJS.Signals): void
  /** Sends a signal to every process of the program that can be found. */
  signalAll(signal: NodeJS.Signals): void
  /** Returns whether any process of the program is left. */
  isAlive(): boolean
  /** Only a terminal has a size. */
  resize?(cols: number, rows: number): void
  /** The signal that asks the program to exit. */
  readonly hangUpSignal: NodeJS.Signals
  /** Reads and drops the output of processes that the program left behind. A closed pipe would kill them. */
  release(): void
}

export interface ProgramEvents {
  onOutput(stream: 'stdout' | 'stderr', chunk: Buffer): void
  onInputDrain(): void
  /** Called when the process has exited. Some of its output may still be paused. */
  onExit?(end: ProgramEnd): void
  /** Called once, when the process has exited and its output was delivered. */
  onEnd(end: ProgramEnd): void
}

export interface ProgramEnd {
  readonly exitCode: number | null
  readonly signal: string | null
}

export interface Launch {
  readonly argv: readonly string[]
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
}

/** The program could not be started, and a retry would not help. This is a result, not an error. */
export class NotStarted extends Error {
  readonly reason: string

  constructor(reason: string) {
    super(`the program was not started: ${reason}`)
    this.reason = reason
  }
}
