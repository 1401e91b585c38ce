/** Folders to unpack into, and one for an unpacker that trusts its input. */
import { mkdirSync, mkdtempSync, readdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { unpackInto } from './unpack.ts'

export const UNPACK_LIMITS = { entries: 10_000, bytes: 100_000_000 }
export const never = () => new AbortController().signal

/** Creates all folders below `base`, which is two levels above both targets, so that an escape is visible there. */
export function unpackFolders(): { base: string; target: string; naive: string } {
  const base = mkdtempSync(join(tmpdir(), 'craik-unpack-'))
  const target = join(base, 'in/target')
  const naive = join(base, 'in/naive')
  mkdirSync(target, { recursive: true })
  mkdirSync(naive)
  return { base, target, naive }
}

export function unpackArchive(target: string, archive: Buffer, limits = UNPACK_LIMITS, options = {}) {
  return unpackInto(target, Readable.from([archive]), limits, never(), options)
}

export function everythingBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort()
}
