/** An agent that runs somewhere, as two streams of bytes and an end. */

export interface AgentProcess {
  readonly input: WritableStream<Uint8Array>
  readonly output: ReadableStream<Uint8Array>
  /** Settles when it has ended, by itself or by `kill`; never rejects. */
  readonly ended: Promise<AgentEnd>
  /** Ends it and all that it started. Resolves when that was asked for. */
  kill(): Promise<void>
}

export interface AgentEnd {
  /** For a person: `exited with 1`, `was killed by SIGKILL`. */
  readonly how: string
  /** The end of what it wrote to its standard error. */
  readonly complaint: string
}
