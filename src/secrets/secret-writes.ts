/** The durable changes to secrets and command references, as the names by which the writer thread knows them. */
import { procedure } from '../store/store.ts'
import type { SecretSource } from './secret.ts'

interface Change {
  /** Who makes it, for the receipt. */
  readonly operator: string
}

interface PutSecret extends Change {
  readonly name: string
  readonly source: SecretSource
  readonly reference: string | null
  readonly sealed: Uint8Array | null
}

interface RemoveSecret extends Change {
  readonly name: string
}

interface RegisterCommand extends Change {
  readonly ref: string
  readonly argv: readonly string[]
}

interface RemoveCommand extends Change {
  readonly ref: string
}

export const putSecret = procedure<PutSecret, { readonly replaced: boolean }>('secrets.put')
export const removeSecret = procedure<RemoveSecret, void>('secrets.remove')
export const registerCommand = procedure<RegisterCommand, void>('commands.register')
/** Answers with the names of the secrets that were read from it, and now have no source. */
export const removeCommand = procedure<RemoveCommand, { readonly orphans: readonly string[] }>(
  'commands.remove',
)

/** The input of a procedure, taken from its token. */
export type InputOf<Token> = Token extends { readonly __types?: (input: infer Input) => unknown }
  ? Input
  : never
