/** Where a login is kept on this machine: read as it is, replaced only by whoever has seen the latest. */

export interface Snapshot {
  readonly text: string
  /** Of the text and of the file that it came from: the same text in another file is another snapshot. */
  readonly identity: string
}

export interface Vault {
  /** For a person. */
  readonly source: string
  /** Tells two vaults apart, on this machine and for good. */
  readonly key: string
  /** Undefined: there is nothing, or nothing but blanks. Throws `VaultProblem`. */
  read(until: AbortSignal): Promise<Snapshot | undefined>
  /** Why `replace` would fail, known before anything is asked of an issuer; undefined when it should work. */
  unwritable(): Promise<string | undefined>
  /** False: it is not what was read any more, and was left alone. */
  replace(expected: Snapshot, text: string, until: AbortSignal): Promise<boolean>
}

/** What is there cannot be read as a login. The message is for a person and holds nothing of the content. */
export class VaultProblem extends Error {
  readonly hint: string

  constructor(message: string, hint: string) {
    super(message)
    this.name = 'VaultProblem'
    this.hint = hint
  }
}
