/** Runs a Craik program in a sandbox's workspace and passes on its output. */

export interface WorkspaceRunner {
  /**
   * Runs a program with the sandbox's Node, in the workspace. Rejects when the program fails. Stops it when `onOutput`
   * throws or `until` aborts. Its output is untrusted.
   */
  runNode(program: SandboxProgram, until: AbortSignal): Promise<void>
}

interface SandboxProgram {
  /** The current action, for errors: `listing the workspace`. */
  readonly doing: string
  readonly script: string
  readonly input: string
  readonly timeoutMs: number
  /** No more output is read until the returned promise settles. */
  readonly onOutput: (chunk: Buffer) => void | Promise<void>
}
