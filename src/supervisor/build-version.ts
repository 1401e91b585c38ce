/**
 * Identifies the code of a program. If two supervisors have the same version, the one whose files were changed later is
 * newer.
 */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { packageFile } from '../lib/package-files.ts'

export interface Build {
  readonly version: string
  /**
   * A hash of the names, sizes and times of all files. To read their contents would take longer than a command may
   * take.
   */
  readonly build: string
  readonly built_at_ms: number
}

/** Returns the build of the program `mainFile`. Its code is the folder that contains it. */
export function buildOf(mainFile: string): Build {
  const folder = dirname(mainFile)
  const hash = createHash('sha256')
  let newestMs = 0
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((file) => /\.(ts|cjs|cedar|cedarschema)$/.test(file) && !/\.(test|fixture)\.ts$/.test(file))
    .sort()
  for (const file of files) {
    const { size, mtimeMs } = statSync(join(folder, file), { throwIfNoEntry: false }) ?? {
      size: 0,
      mtimeMs: 0,
    }
    hash.update(`${file}\0${size}\0${mtimeMs}\n`)
    newestMs = Math.max(newestMs, mtimeMs)
  }
  const { version } = JSON.parse(readFileSync(packageFile('package.json'), 'utf8')) as { version: string }
  hash.update(version)
  return { version, build: hash.digest('hex').slice(0, 32), built_at_ms: Math.floor(newestMs) }
}

/**
 * Returns a negative number when `a` is older than `b`. Pre-releases of one version are ordered by their build times.
 */
export function compareBuilds(a: Build, b: Build): number {
  const [left, right] = [numbers(a.version), numbers(b.version)]
  for (let i = 0; i < 3; i++) {
    const difference = (left[i] ?? 0) - (right[i] ?? 0)
    if (difference !== 0) return difference
  }
  return a.built_at_ms - b.built_at_ms
}

function numbers(version: string): number[] {
  return version.split(/[.+-]/, 3).map((part) => Number.parseInt(part, 10) || 0)
}
