/** Removes the files that npm installed and no sandbox needs. */
import { lstat, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { CraikError } from '../../errors.ts'

/** Types and source maps are for editors. The links lead to programs that `bin` already starts. */
const ALWAYS = [
  'node_modules/.bin',
  'node_modules/**/node_modules/.bin',
  'node_modules/.package-lock.json',
  ...['ts', 'mts', 'cts'].map((kind) => `node_modules/**/*.d.${kind}`),
  'node_modules/**/*.map',
  'node_modules/**/*.tsbuildinfo',
]

export interface TreeSize {
  readonly files: number
  readonly bytes: number
}

/** Refuses everything except files and folders, because a link could lead out of the folder, wherever it is mounted. */
export async function pruneTree(
  folder: string,
  patterns: readonly string[],
  signal: AbortSignal,
): Promise<TreeSize> {
  const goes = [...ALWAYS, ...patterns].map(matcherOf)
  let files = 0
  let bytes = 0
  const walk = async (relative: string): Promise<void> => {
    signal.throwIfAborted()
    for (const name of (await readdir(join(folder, relative))).sort()) {
      const path = relative === '' ? name : `${relative}/${name}`
      const found = await lstat(join(folder, path))
      if (goes.some((matches) => matches.test(path)))
        await rm(join(folder, path), { recursive: true, force: true })
      else if (found.isDirectory()) await walk(path)
      else if (found.isFile()) {
        files += 1
        bytes += found.size
      } else
        throw new CraikError(
          'unavailable',
          `npm installed ${path}, which is neither a file nor a folder: Craik does not use the package`,
          { hint: 'report this, with the name of the harness' },
        )
    }
  }
  await walk('')
  return { files, bytes }
}

/** Converts a pattern: `*` matches any part of a name, and `**` any number of folders. */
export function matcherOf(pattern: string): RegExp {
  const text = pattern
    .split('/')
    .map((part) => (part === '**' ? '(?:[^/]+/)*' : `${part.split('*').map(escapePattern).join('[^/]*')}/`))
    .join('')
  return new RegExp(`^${text.replace(/\/$/, '')}$`)
}

function escapePattern(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')
}
