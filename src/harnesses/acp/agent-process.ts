/** A running agent: two byte streams and its end. */

export interface AgentProcess {
  readonly input: WritableStream<Uint8Array>
  readonly output: ReadableStream<Uint8Array>
  /** Resolves when the agent has ended, by itself or after `kill`. Never rejects. */
  readonly ended: Promise<AgentEnd>
  /** Kills the agent and everything that it started. Resolves when the kill was requested. */
  kill(): Promise<void>
}

export interface AgentEnd {
  /** How the agent ended, in words for the user: `exited with 1`, `was killed by SIGKILL`. */
  readonly endDescription: string
  /** The end of its standard error output. */
  readonly errorOutput: string
}
