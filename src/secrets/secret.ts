/** Defines a secret: a name, and the source of its value. */
import { isAbsolute } from 'node:path'
import { CraikError } from '../errors.ts'
import { REFERENCE } from '../lib/ids.ts'
import type { SecretRow } from '../store/store.ts'
import { looksSecret } from './detect-secret.ts'

export type BindingSource = 'env' | 'file' | 'keyring' | 'command'
export type SecretSource = BindingSource | 'stored'

/**
 * The location of a value that Craik does not store: the variable, the absolute path, `service/account`, or the command
 * reference.
 */
export interface Binding {
  readonly source: BindingSource
  readonly reference: string
}

export const MAX_VALUE_BYTES = 64 * 1024

/** Every name is also a reference in receipts, and a reference starts with a letter or digit. */
const NAME = /^[A-Za-z][A-Za-z0-9_.-]{0,127}$/
const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]{0,254}$/
/** The account is what follows the last slash. Neither part may look like a flag. */
const KEYRING_ITEM = /^(?<service>[^-\p{Cc}][^\p{Cc}]{0,254})\/(?<account>[^-/\p{Cc}][^/\p{Cc}]{0,254})$/u

/**
 * Parses a name. Errors never repeat the text: a value typed in the wrong place would otherwise reach the screen and
 * its log.
 */
export function parseSecretName(name: string): string {
  if (!NAME.test(name))
    throw new CraikError('usage', 'the secret name is invalid', {
      hint: 'start with a letter, then use letters, digits and _ . -, at most 128 characters, e.g. OPENAI_API_KEY',
    })
  if (looksSecret(name))
    throw new CraikError('usage', 'the secret name looks like a secret value', {
      hint: 'use a name; Craik reads the value from a prompt or a pipe (replace the value if others can see it now)',
    })
  return name
}

export function parseBinding(source: BindingSource, reference: string): Binding {
  const refusal = BINDING_RULES[source](reference)
  if (refusal !== undefined) throw new CraikError('usage', refusal)
  return { source, reference }
}

export function keyringItem(
  reference: string,
): { readonly service: string; readonly account: string } | undefined {
  return KEYRING_ITEM.exec(reference)?.groups as { service: string; account: string } | undefined
}

/** Removes the line break that tools and files put at the end of their text. It is not part of the value. */
export function stripNewline(value: Buffer): Buffer {
  if (value.at(-1) !== 0x0a) return value
  return value.subarray(0, value.at(-2) === 0x0d ? -2 : -1)
}

export function requireValueSize(value: Uint8Array): void {
  if (value.length === 0)
    throw new CraikError('usage', 'the value is empty; nothing was stored', {
      hint: 'type the value at the prompt, or pipe it in:  craik secret set NAME < FILE',
    })
  if (value.length > MAX_VALUE_BYTES)
    throw new CraikError(
      'too_large',
      `a secret value can have at most ${MAX_VALUE_BYTES} bytes; nothing was stored`,
    )
}

/** Formats the source for display: `env OPENAI_API_KEY`, `file /run/key`, `stored`. */
export function describeSource({ source, reference }: Pick<SecretRow, 'source' | 'reference'>): string {
  return reference === null ? source : `${source} ${reference}`
}

export function unknownSecret(name: string): CraikError {
  return new CraikError('not_found', `unknown secret ${name}`, {
    hint: `bind it:  craik secret bind ${name} --env ${name}   or list secrets:  craik secret list`,
  })
}

/** Returns why a reference is refused, or `undefined`. The message never repeats it. */
const BINDING_RULES: Record<BindingSource, (reference: string) => string | undefined> = {
  env(variable) {
    if (!VARIABLE.test(variable)) return '--env takes the name of an environment variable'
    if (looksSecret(variable))
      return '--env takes the name of a variable; the argument looks like a secret value'
    return undefined
  },
  file(path) {
    if (!isAbsolute(path) || path.includes('\0') || path.length > 4096) return '--file takes an absolute path'
    if (looksSecret(path)) return '--file takes a path; a part of it looks like a secret value'
    return undefined
  },
  keyring(item) {
    if (!KEYRING_ITEM.test(item)) return '--keyring takes SERVICE/ACCOUNT'
    if (looksSecret(item)) return '--keyring takes SERVICE/ACCOUNT; the argument looks like a secret value'
    return undefined
  },
  command(ref) {
    if (!REFERENCE.test(ref)) return '--command takes the reference of a registered command'
    if (looksSecret(ref)) return '--command takes a reference; the argument looks like a secret value'
    return undefined
  },
}
