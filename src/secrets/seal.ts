/** Encrypts stored values with AES-256-GCM. The format is version byte | 96-bit nonce | 128-bit tag | ciphertext. */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { CraikError } from '../errors.ts'

export const KEY_BYTES = 32

const CIPHER = 'aes-256-gcm'
const VERSION = 1
const NONCE_BYTES = 12
const TAG_BYTES = 16
const NONCE_AT = 1
const TAG_AT = NONCE_AT + NONCE_BYTES
const CIPHERTEXT_AT = TAG_AT + TAG_BYTES

/** Encrypts with a fresh random nonce, so that equal values do not look equal. */
export function sealValue(key: Uint8Array, name: string, value: Uint8Array): Buffer {
  const nonce = randomBytes(NONCE_BYTES)
  const cipher = createCipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES }).setAAD(associatedData(name))
  const ciphertext = Buffer.concat([cipher.update(value), cipher.final()])
  return Buffer.concat([Buffer.of(VERSION), nonce, cipher.getAuthTag(), ciphertext])
}

/** Throws `store_damaged` unless these are the bytes that were sealed, with this key and for this name. */
export function openValue(key: Uint8Array, name: string, sealed: Uint8Array): Buffer {
  if (sealed[0] !== VERSION || sealed.length < CIPHERTEXT_AT) throw damagedError(name)
  const nonce = sealed.subarray(NONCE_AT, TAG_AT)
  const decipher = createDecipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES })
    .setAAD(associatedData(name))
    .setAuthTag(sealed.subarray(TAG_AT, CIPHERTEXT_AT))
  const value = decipher.update(sealed.subarray(CIPHERTEXT_AT))
  try {
    return Buffer.concat([value, decipher.final()])
  } catch (cause) {
    value.fill(0)
    throw damagedError(name, cause)
  }
}

/** Authenticates the name with the value, so that a row cannot be passed off as another. */
function associatedData(name: string): Buffer {
  return Buffer.from(`craik-secret/1\0${name}`)
}

function damagedError(name: string, cause?: unknown): CraikError {
  return new CraikError(
    'store_damaged',
    `cannot decrypt the stored value of ${name}: it was changed, or encrypted with another key`,
    { hint: `set it again:  craik secret set ${name}`, cause },
  )
}
