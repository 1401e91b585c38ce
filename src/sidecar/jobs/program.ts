/** A running program, as a job sees it: a child with pipes, or one on a terminal. */

export interface Program {
  readonly pid: number
  /** Holds its output up, or lets it go on. */
  pause(): void
  resume(): void
  /** False: wait for `onInputRoom` before the next one. */
  write(chunk: Buffer): boolean
  endInput(): void
  /** To everything of it that a Ctrl-C would reach. Throws when there is no such signal. */
  signal(signal: NodeJS.Signals): void
  /** To every process of it that can be found. */
  signalAll(signal: NodeJS.Signals): void
  /** Whether any process of it is left. */
  isAlive(): boolean
  /** Only a terminal has a size. */
  resize?(cols: number, rows: number): void
  /** What asks it politely to go. */
  readonly hangUpSignal: NodeJS.Signals
  /** Takes and drops what processes that it left behind still say; they would die of a closed pipe. */
  release(): void
}

export interface ProgramEvents {
  onOutput(stream: 'stdout' | 'stderr', chunk: Buffer): void
  onInputDrain(): void
  /** Its process has ended; something of what it said may be held up. */
  onExit?(end: ProgramEnd): void
  /** Once, when it has ended and what it said has been handed over. */
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

/** It could not be started at all, and never will be: a result, not a fault. */
export class NotStarted extends Error {
  readonly reason: string

  constructor(reason: string) {
    super(`the program was not started: ${reason}`)
    this.reason = reason
  }
}
