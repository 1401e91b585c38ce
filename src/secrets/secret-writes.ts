/** The definitions of the writer thread's procedures that change secrets and command references. */
import { procedure } from '../store/store.ts'
import type { SecretSource } from './secret.ts'

interface Change {
  /** The operator who makes the change, for the receipt. */
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
/** Returns the names of the secrets that used the command and now have no source. */
export const removeCommand = procedure<RemoveCommand, { readonly orphans: readonly string[] }>(
  'commands.remove',
)

/** The input type of a procedure, from its definition. */
export type InputOf<Token> = Token extends { readonly __types?: (input: infer Input) => unknown }
  ? Input
  : never
