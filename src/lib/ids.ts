/** Ids consist of a readable prefix and a ULID, so that they sort by time and show what they name. */
import { randomUUID } from 'node:crypto'
import { CraikError } from '../errors.ts'

type Branded<Name extends string> = string & { readonly __brand: Name }
export type ReceiptId = Branded<'ReceiptId'>
export type GrantId = Branded<'GrantId'>
export type EnvelopeId = Branded<'EnvelopeId'>
export type BudgetId = Branded<'BudgetId'>
export type HoldId = Branded<'HoldId'>
export type SandboxId = Branded<'SandboxId'>
export type JobId = Branded<'JobId'>
export type SnapshotId = Branded<'SnapshotId'>

const ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'

/** Returns a new id such as `rcpt_01JCQ…`: 48 bits of milliseconds and 80 bits of randomness. */
export function newId<T extends string>(prefix: string, nowMs: number, random = random80()): T {
  let time = ''
  for (let i = 0, t = nowMs; i < 10; i++, t = Math.floor(t / 32)) time = ALPHABET[t % 32] + time
  let rest = ''
  for (let bit = 0; bit < 80; bit += 5) {
    const pair = (random[bit >> 3]! << 8) | (random[(bit >> 3) + 1] ?? 0)
    rest += ALPHABET[(pair >> (11 - (bit & 7))) & 31]
  }
  return `${prefix}_${time}${rest}` as T
}

/**
 * Returns the parts of a random UUID that are completely random. Node has a pool of them, so this needs no system call.
 */
function random80(): Buffer {
  const uuid = randomUUID()
  return Buffer.from(uuid.slice(0, 8) + uuid.slice(24), 'hex')
}

/**
 * References name things in records. They consist of letters, digits and `._:/@-`, never spaces, and have at most 200
 * characters.
 */
export const REFERENCE = /^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,199}$/

export function parseReference<T extends string>(value: string, what: string): T {
  if (!REFERENCE.test(value)) {
    const shown = value.length > 40 ? `${value.slice(0, 40)}…` : value
    throw new CraikError('usage', `${what} ${JSON.stringify(shown)} is not a valid id or reference`, {
      hint: 'use letters, digits and . _ : / @ -, at most 200 characters',
    })
  }
  return value as T
}
