/** The signing side of checkpoints, as C2SP signed notes. `verifier/signed-notes.ts` opens them. */
import { createHash, createPublicKey, type KeyObject, sign } from 'node:crypto'

/** Returns the three lines that a checkpoint signs: the log, the number of receipts and the root. */
export function checkpointText(origin: string, size: number, root: Buffer): string {
  return `${origin}\n${size}\n${root.toString('base64')}\n`
}

/** Signs a note. `text` must end with a newline. To sign under a second name, append that note's signature line. */
export function signNote(text: string, name: string, privateKey: KeyObject): string {
  if (!text.endsWith('\n')) throw new TypeError('the text of a note ends with a newline')
  const id = keyId(name, encodeKey(createPublicKey(privateKey)))
  const signature = sign(null, Buffer.from(text), privateKey)
  return `${text}\n— ${name} ${Buffer.concat([id, signature]).toString('base64')}\n`
}

/** Formats the public key as one line with its name and id, as in `craik.pub`. */
export function formatVkey(name: string, publicKey: KeyObject): string {
  const key = encodeKey(publicKey)
  return `${name}+${keyId(name, key).toString('hex')}+${key.toString('base64')}`
}

/** Returns the algorithm byte (0x01, Ed25519), then the 32 bytes of the key. */
function encodeKey(publicKey: KeyObject): Buffer {
  const { crv, x } = publicKey.export({ format: 'jwk' })
  if (crv !== 'Ed25519' || !x) throw new TypeError('notes are signed with Ed25519 keys')
  return Buffer.concat([Buffer.of(1), Buffer.from(x, 'base64url')])
}

function keyId(name: string, key: Buffer): Buffer {
  if (!/^[!-*,-~]+$/.test(name))
    throw new TypeError('a key name is printable ASCII without spaces and plus signs')
  return createHash('sha256').update(`${name}\n`).update(key).digest().subarray(0, 4)
}
