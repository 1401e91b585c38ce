/** Files that a person names on the command line: keys, checkpoints; and the keys that are trusted here. */
import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs'
import { CraikError } from '../../errors.ts'
import { parseVkey } from '../../receipts/verifier/notes.ts'
import type { CliContext } from '../context.ts'

const MAX_BYTES = 64 * 1024

export function readSmallFile(path: string, what: string): string {
  let file: number
  try {
    file = openSync(path, 'r')
  } catch (error) {
    throw new CraikError(
      'usage',
      `${what} cannot be read: ${path} (${(error as NodeJS.ErrnoException).code})`,
      {
        hint: 'check the name of the file',
        cause: error,
      },
    )
  }
  try {
    const { size } = fstatSync(file)
    if (fstatSync(file).isDirectory()) throw new CraikError('usage', `${what} is a folder: ${path}`)
    if (size > MAX_BYTES)
      throw new CraikError('too_large', `${what} has ${size} bytes; at most ${MAX_BYTES} are read`)
    return readFileSync(file, 'utf8')
  } finally {
    closeSync(file)
  }
}

/** One key a line. */
export function readKeyFile(path: string): string[] {
  const lines = readSmallFile(path, 'the public key')
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
  if (lines.length === 0 || lines.some((line) => parseVkey(line) === undefined)) {
    throw new CraikError('usage', `${path} does not hold a log’s public key`, {
      hint: 'it is one line that looks like craik.local/…+1a2b3c4d+AbC…; get it with:  craik receipts key',
    })
  }
  return lines
}

/** Who is trusted for the live log: the key that was given, or this home's own keys, retired ones included. */
export async function trustedKeys(context: CliContext, publicKey: string | undefined) {
  if (publicKey !== undefined) return { vkeys: readKeyFile(publicKey) }
  const { loadLogKeys, loadRetiredKeys } = await import('../../receipts/keys.ts')
  const store = await context.store()
  const recorded = await store.read((tables) => tables.logKeys.list())
  // A log that has begun is never given a new key: a missing one is an error.
  const current = loadLogKeys(context.home, recorded.length === 0)
  const all = [
    current,
    ...recorded.map(({ kid }) => loadRetiredKeys(context.home, kid)).filter((keys) => keys !== undefined),
  ]
  return {
    vkeys: [...new Set(all.map(({ vkey }) => vkey))],
    macKey: (kid: string) => all.find((keys) => keys.kid === kid)?.macKey,
  }
}
