/** Computes the digests of the files at /opt/craik. Node is large, so its digest is cached until the file changes. */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { CraikError } from '../../../../errors.ts'
import { readPrivateFile, writePrivateFile } from '../../../../lib/private-files.ts'
import type { RuntimeFile } from '../../../runtime.ts'

const noteSchema = z.strictObject({ file: z.string(), sha256: z.string().regex(/^[0-9a-f]{64}$/) })
const NOTE = 'node-digest.json'
const MAX_NOTE_BYTES = 16 * 1024

/** Returns digests by file name. Only this user can access `folder`. */
export async function digestsOf(
  files: readonly RuntimeFile[],
  folder: string,
): Promise<Readonly<Record<string, string>>> {
  const pairs = await Promise.all(
    files.map(async ({ name, path, mode }) => {
      const digest = name === 'node' ? await digestWithNote(path, join(folder, NOTE)) : await digestOf(path)
      return [name, `${mode.toString(8)}:${digest}`] as const
    }),
  )
  return Object.fromEntries(pairs)
}

async function digestWithNote(path: string, note: string): Promise<string> {
  const { dev, ino, size, mtimeNs, ctimeNs } = await stat(path, { bigint: true })
  const file = [path, dev, ino, size, mtimeNs, ctimeNs].join(' ')
  const known = readNote(note)
  if (known?.file === file) return known.sha256
  const sha256 = await digestOf(path)
  writePrivateFile(note, JSON.stringify({ file, sha256 }), 'digest of Node')
  return sha256
}

function readNote(path: string): z.infer<typeof noteSchema> | undefined {
  try {
    return noteSchema.parse(JSON.parse(readPrivateFile(path, MAX_NOTE_BYTES).toString()))
  } catch {
    return undefined
  }
}

async function digestOf(path: string): Promise<string> {
  const hash = createHash('sha256')
  try {
    for await (const chunk of createReadStream(path, { highWaterMark: 1024 * 1024 }))
      hash.update(chunk as Buffer)
  } catch (cause) {
    throw new CraikError('unavailable', 'the programs that every sandbox needs are not built', {
      hint: 'npm run prepare',
      cause,
    })
  }
  return hash.digest('hex')
}
