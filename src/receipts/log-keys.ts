/**
 * The log's keys: a root secret for the HMAC and an Ed25519 key for checkpoints. They share one private file, so that
 * both change together. They seal receipts and, under a derived key, the records that must not change unnoticed.
 */

import type { KeyObject } from 'node:crypto'
import {
  createHash,
  createPrivateKey,
  createPublicKey,
  createSecretKey,
  generateKeyPairSync,
  hkdfSync,
  randomBytes,
} from 'node:crypto'
import { existsSync, linkSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { CraikError } from '../errors.ts'
import { createPrivateFile, ensurePrivateFolder, readPrivateFile } from '../lib/private-files.ts'
import type { Home } from '../store/home.ts'
import { formatVkey } from './note.ts'

export interface LogKeys {
  /** The id of the HMAC key. It does not reveal the key. */
  readonly kid: string
  /** The name of the log and of the signing key in checkpoints. */
  readonly origin: string
  /** A key object, because passing the bytes for each receipt costs five times the HMAC itself. */
  readonly macKey: KeyObject
  /** Seals records outside the log. It differs from the key of receipts. */
  readonly recordKey: KeyObject
  readonly signingKey: KeyObject
  readonly vkey: string
}

const FILE = 'log.key'
const NEXT = 'log.key.next'

const LABEL = 'log key (secrets/log.key)'

/** Prepares the keys of a new log. As in a rotation, they take effect when the log has recorded them. */
export function prepareFirstKeys(home: Home): LogKeys {
  ensurePrivateFolder(home.secrets, 'secrets folder')
  refuseOrphanedKey(home)
  return prepareNextKeys(home, newOrigin())
}

/** Throws when a key exists without its log: the database was lost or deleted, and a new log would hide that. */
export function refuseOrphanedKey(home: Home): void {
  if (!existsSync(join(home.secrets, FILE))) return
  throw new CraikError('tampered', 'secrets/log.key exists, but its log is missing', {
    hint: 'restore state/craik.sqlite3, or move secrets/log.key away to start a new log',
  })
}

/** Returns the keys that the log records under this id: current, prepared or retired. */
export function loadLogKeys(home: Home, kid: string): LogKeys {
  ensurePrivateFolder(home.secrets, 'secrets folder')
  const path = join(home.secrets, FILE)
  const current = existsSync(path) ? parseKeys(readPrivateFile(path, 4096, LABEL)) : undefined
  if (current?.kid === kid) return current
  const found = adoptNextKeys(home, kid, current) ?? loadRetiredKeys(home, kid)
  if (found !== undefined) return found
  // Reading again throws the exact problem if the file itself is damaged.
  if (current === undefined) readPrivateFile(path, 4096, LABEL)
  throw new CraikError(
    'key_mismatch',
    `the log was written with key ${kid}, but secrets/log.key contains key ${current?.kid}`,
  )
}

/** Moves the first keys of a log into place, once the log has recorded them. */
export function settleFirstKeys(home: Home, kid: string): void {
  if (!existsSync(join(home.secrets, FILE))) loadLogKeys(home, kid)
}

/** Returns a retired key, which Craik keeps to check the receipts that it sealed. */
function loadRetiredKeys(home: Home, kid: string): LogKeys | undefined {
  const path = join(home.secrets, `log-${kid}.key`)
  return existsSync(path)
    ? parseKeys(readPrivateFile(path, 4096, `retired log key (secrets/log-${kid}.key)`))
    : undefined
}

/** Writes the next keys. They take effect when the log has recorded them and `adoptNextKeys` has run. */
export function prepareNextKeys(home: Home, origin: string): LogKeys {
  const path = join(home.secrets, NEXT)
  createPrivateFile(path, newKeyText(origin), 'next log key')
  return parseKeys(readPrivateFile(path, 4096, 'next log key'))
}

/** Moves prepared keys into place if the log requests them, also after an interrupted rotation. */
function adoptNextKeys(home: Home, wantedKid: string, current: LogKeys | undefined): LogKeys | undefined {
  const next = join(home.secrets, NEXT)
  if (!existsSync(next)) return undefined
  const keys = parseKeys(readPrivateFile(next, 4096, 'next log key'))
  if (keys.kid !== wantedKid) return undefined
  if (current !== undefined) {
    const retired = join(home.secrets, `log-${current.kid}.key`)
    // Links and then replaces the file, so that a log key exists at every moment, even if the process is killed.
    if (!existsSync(retired)) linkSync(join(home.secrets, FILE), retired)
  }
  renameSync(next, join(home.secrets, FILE))
  return keys
}

function newOrigin(): string {
  return `craik.local/${randomBytes(8).toString('hex')}`
}

function newKeyText(origin: string): string {
  const signing = generateKeyPairSync('ed25519').privateKey.export({ format: 'der', type: 'pkcs8' })
  return `${JSON.stringify({
    format: 'craik.log-key/1',
    origin,
    mac_root: randomBytes(32).toString('base64'),
    signing_key: signing.toString('base64'),
  })}\n`
}

function parseKeys(content: Buffer): LogKeys {
  try {
    const { format, origin, mac_root, signing_key } = JSON.parse(content.toString('utf8')) as Record<
      string,
      string
    >
    const root = Buffer.from(mac_root!, 'base64')
    if (format !== 'craik.log-key/1' || root.length !== 32 || !origin) throw new Error('unexpected fields')
    const signingKey = createPrivateKey({
      key: Buffer.from(signing_key!, 'base64'),
      format: 'der',
      type: 'pkcs8',
    })
    return {
      origin,
      signingKey,
      kid: createHash('sha256').update(derive(root, 'key id')).digest('hex').slice(0, 16),
      macKey: createSecretKey(derive(root, 'receipt')),
      recordKey: createSecretKey(derive(root, 'record')),
      vkey: formatVkey(origin, createPublicKey(signingKey)),
    }
  } catch (error) {
    throw new CraikError('key_unreadable', `the ${LABEL} does not contain a log key`, { cause: error })
  }
}

function derive(root: Buffer, purpose: string): Buffer {
  return Buffer.from(hkdfSync('sha256', root, Buffer.alloc(0), `craik/${purpose}/1`, 32))
}
