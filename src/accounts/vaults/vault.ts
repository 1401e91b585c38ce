/** The storage of a login on this machine. A writer can replace it only if its last read is still current. */

export interface VaultSnapshot {
  readonly text: string
  /** Identifies the text and its file: the same text in another file is another snapshot. */
  readonly identity: string
}

export interface Vault {
  /** For display. */
  readonly source: string
  /** A stable id of the vault, unique on this machine. */
  readonly key: string
  /** Returns `undefined` when the vault is missing or blank. Throws `VaultProblem`. */
  read(until: AbortSignal): Promise<VaultSnapshot | undefined>
  /** Returns why `replace` would fail, before a request to an issuer. `undefined` when it should succeed. */
  unwritable(): Promise<string | undefined>
  /** Returns `false`, and changes nothing, when the content differs from `expected`. */
  replace(expected: VaultSnapshot, text: string, until: AbortSignal): Promise<boolean>
}

/** The vault's content cannot be read as a login. The message is for the user and repeats nothing of the content. */
export class VaultProblem extends Error {
  readonly hint: string

  constructor(message: string, hint: string) {
    super(message)
    this.name = 'VaultProblem'
    this.hint = hint
  }
}
