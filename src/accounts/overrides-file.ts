/** Reads `config/accounts.yaml` of a home, again whenever the file changes. */
import { join } from 'node:path'
import { CraikError } from '../errors.ts'
import { ACCOUNTS_FILE, type Overrides, parseOverrides } from './overrides.ts'
import { fileStamp } from './vaults/file-vault.ts'

export class OverridesFile {
  readonly #path: string
  readonly #read: () => Promise<unknown>
  #stamp: string | undefined
  #overrides: Overrides = {}

  /** `read` returns the file's content, or `undefined` when the file does not exist. */
  constructor(config: string, read: () => Promise<unknown>) {
    this.#path = join(config, ACCOUNTS_FILE)
    this.#read = read
  }

  /**
   * Returns the overrides of the present file. Throws `invalid_config` when it is invalid: the earlier addresses may be
   * the very ones that must not get this login.
   */
  async current(): Promise<Overrides> {
    // The stamp is taken before the read, so that the next call notices a change in between.
    const stamp = await fileStamp([this.#path], Date.now())
    if (stamp !== undefined && stamp === this.#stamp) return this.#overrides
    const overrides = await this.#parse()
    this.#stamp = stamp
    this.#overrides = overrides
    return overrides
  }

  async #parse(): Promise<Overrides> {
    try {
      return parseOverrides(await this.#read())
    } catch (error) {
      if (!(error instanceof CraikError) || error.code !== 'invalid_config') throw error
      const { message, hint } = error
      throw new CraikError('invalid_config', message, {
        hint,
        details: { file: `config/${ACCOUNTS_FILE}` },
        cause: error,
      })
    }
  }
}
