/** The key that stored values are sealed with: one private file, created once. */
import { randomBytes } from 'node:crypto'
import { lstatSync } from 'node:fs'
import { join } from 'node:path'
import { CraikError } from '../errors.ts'
import { createPrivateFile, ensurePrivateFolder, readPrivateFile } from '../lib/private-files.ts'
import type { Home } from '../store/home.ts'
import type { Store } from '../store/store.ts'
import { KEY_BYTES } from './seal.ts'

const LABEL = 'secrets/at-rest.key of this home'

export function readAtRestKey(home: Home): Buffer {
  const path = keyPath(home)
  if (lstatSync(path, { throwIfNoEntry: false }) === undefined) throw unreadable(`${LABEL} is missing`)
  const key = readPrivateFile(path, KEY_BYTES, LABEL)
  if (key.length !== KEY_BYTES)
    throw unreadable(`${LABEL} is damaged: it has ${key.length} bytes instead of ${KEY_BYTES}`)
  return key
}

/** Creates the key when it is missing and no value is stored. A lost key is not replaced while values depend on it. */
export async function readOrCreateAtRestKey(store: Store, home: Home): Promise<Buffer> {
  if (lstatSync(keyPath(home), { throwIfNoEntry: false }) === undefined && !(await hasStoredValues(store))) {
    ensurePrivateFolder(home.secrets, 'secrets folder of this home')
    createPrivateFile(keyPath(home), randomBytes(KEY_BYTES), LABEL)
  }
  return readAtRestKey(home)
}

function keyPath(home: Home): string {
  return join(home.secrets, 'at-rest.key')
}

async function hasStoredValues(store: Store): Promise<boolean> {
  const rows = await store.read((tables) => tables.secrets.list())
  return rows.some((row) => row.sealed !== null)
}

function unreadable(message: string): CraikError {
  return new CraikError('key_unreadable', message, {
    hint: 'restore the file from a backup; or remove each secret that `craik secret list` shows as stored, and set it again',
  })
}
