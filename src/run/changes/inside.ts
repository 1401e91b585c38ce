/** What this needs of a sandbox: a program of ours, run in the workspace inside, and what it prints. */

export interface WorkspaceInside {
  /**
   * Runs a program on the Node inside, in the workspace. Rejects when it does not end well, and ends it when `onOutput`
   * throws or `until` aborts. Whatever it prints may be a lie.
   */
  runNode(program: InsideProgram, until: AbortSignal): Promise<void>
}

interface InsideProgram {
  /** What is being done, for errors: `listing the workspace`. */
  readonly doing: string
  readonly script: string
  readonly input: string
  readonly timeoutMs: number
  /** Nothing more is taken from inside until what it returns settles. */
  readonly onOutput: (chunk: Buffer) => void | Promise<void>
}
