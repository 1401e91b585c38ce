/** 2. Signed notes: https://c2sp.org/signed-note, https://c2sp.org/tlog-checkpoint */
import * as crypto from 'node:crypto'
import { sha256Digest } from './merkle.ts'
import type { NoteProblem } from './report.ts'

export interface VerifierKey {
  name: string
  keyId: string
  publicKey: crypto.KeyObject
}
export interface Checkpoint {
  origin: string
  size: number
  root: Buffer
}
export type OpenedNote =
  | (Checkpoint & { ok: true; keyId: string })
  | { ok: false; problem: NoteProblem; why: string }

/** A value in a file can have any type, and even String() can throw on it. */
export function noteText(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

/** Decodes base64 in its one canonical form, or returns nothing. */
export function base64(value: unknown): Buffer | undefined {
  const bytes = Buffer.from(noteText(value), 'base64')
  return bytes.toString('base64') === value ? bytes : undefined
}

/** Parses `<name>+<key id>+<base64(0x01 ‖ public key)>`. The id must match the name and key. */
export function parseVkey(text: string): VerifierKey | undefined {
  const [, name, keyId, encoded] = /^([!-*,-~]+)\+([0-9a-f]{8})\+(\S+)$/.exec(text.trim()) ?? []
  const bytes = base64(encoded)
  if (!name || !keyId || bytes?.length !== 33 || bytes[0] !== 1) return undefined
  if (sha256Digest(Buffer.concat([Buffer.from(`${name}\n`), bytes])).toString('hex', 0, 4) !== keyId)
    return undefined
  const key = { kty: 'OKP', crv: 'Ed25519', x: bytes.toString('base64url', 1) }
  return { name, keyId, publicKey: crypto.createPublicKey({ key, format: 'jwk' }) }
}

/** Reads the signed text of a note (up to the blank line) as a checkpoint, with any signer. */
export function readCheckpoint(note: string): Checkpoint | undefined {
  const [, origin, size, encoded] = /^([!-~]+)\n(0|[1-9]\d{0,14})\n(\S{44})\n\n/.exec(note) ?? []
  const root = base64(encoded)
  return origin && root?.length === 32 ? { origin, size: Number(size), root } : undefined
}

/** Returns a checkpoint that one of `keys` signed in the log's own name. Ignores signatures by unknown keys. */
export function openNote(note: string, keys: readonly VerifierKey[]): OpenedNote {
  const invalidNote = (problem: NoteProblem, why: string): OpenedNote => ({ ok: false, problem, why })
  const end = note.lastIndexOf('\n\n')
  if (end < 0 || !note.endsWith('\n')) return invalidNote('malformed', 'is not a signed note')
  const text = Buffer.from(note.slice(0, end + 1))
  let signer: VerifierKey | undefined
  for (const line of note.slice(end + 2, -1).split('\n', 100)) {
    const [, name, encoded] = /^— ([^\s+]+) (\S+)$/.exec(line) ?? []
    const bytes = base64(encoded)
    if (!bytes || bytes.length < 5) return invalidNote('malformed', 'has an invalid signature line')
    const key = keys.find((known) => known.name === name && known.keyId === bytes.toString('hex', 0, 4))
    if (!key) continue
    if (!crypto.verify(null, text, key.publicKey, bytes.subarray(4)))
      return invalidNote('bad_checkpoint', `was changed: the signature of key ${key.keyId} does not match`)
    signer = key
  }
  if (!signer) return invalidNote('foreign_key', 'is not signed by a trusted key')
  const checkpoint = readCheckpoint(note)
  if (checkpoint?.origin !== signer.name)
    return invalidNote('malformed', "is not a checkpoint of its signer's log")
  return { ok: true, keyId: signer.keyId, ...checkpoint }
}

/** Throws TypeError without a key, or when one is invalid. */
export function parseTrustedKeys(vkeys: readonly string[]): VerifierKey[] {
  if (vkeys.length === 0) throw new TypeError('verification requires a public key')
  return vkeys.map((text) => {
    const key = parseVkey(text)
    if (!key) throw new TypeError('invalid public key: expected <name>+<8 hex digits>+<base64>')
    return key
  })
}
