/** What an installed harness says of itself, and whether it is still so. */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { lstat, readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { HARNESS_MANIFEST } from '../../sandboxes/harness-package.ts'
import type { PackageSource } from './harness-catalogue.ts'
import type { TreeSize } from './prune-tree.ts'
import { fileOf } from './wrappers.ts'

const manifestSchema = z.strictObject({
  id: z.string(),
  key: z.string(),
  /** But for this one. */
  files: z.int().nonnegative(),
  bytes: z.int().nonnegative(),
  /** What does the work, relative to the folder. */
  programs: z.record(z.string(), z.strictObject({ bytes: z.int(), sha256: z.string() })),
})
export type HarnessManifest = z.infer<typeof manifestSchema>

export async function describeTree(
  folder: string,
  { id, key, architecture, settings }: PackageSource,
  { files, bytes }: TreeSize,
): Promise<HarnessManifest> {
  const paths = Object.values(settings.programs).flatMap((program) =>
    'runtime' in program ? [] : [fileOf(program, architecture)],
  )
  const programs: HarnessManifest['programs'] = {}
  for (const path of paths) {
    const { size } = await lstat(join(folder, path))
    programs[path] = { bytes: size, sha256: await digestOf(join(folder, path)) }
  }
  return { id, key, files, bytes, programs }
}

/** Undefined when there is none that can be read. */
export async function readManifest(folder: string): Promise<HarnessManifest | undefined> {
  try {
    return manifestSchema.parse(JSON.parse(await readFile(join(folder, HARNESS_MANIFEST), 'utf8')))
  } catch {
    return undefined
  }
}

/** At a glance: made of this, and its programs there and as long as they were. */
export async function isThere(folder: string, { key }: Pick<PackageSource, 'key'>): Promise<boolean> {
  const found = await readManifest(folder)
  if (found?.key !== key) return false
  try {
    for (const [path, { bytes }] of Object.entries(found.programs)) {
      const file = await lstat(join(folder, path))
      if (!file.isFile() || file.size !== bytes) return false
    }
    return true
  } catch {
    return false
  }
}

/** To the last byte of its programs, and no file more or less: takes a second or two. */
export async function isWhole(folder: string, source: Pick<PackageSource, 'key'>): Promise<boolean> {
  if (!(await isThere(folder, source))) return false
  const found = (await readManifest(folder))!
  try {
    for (const [path, { sha256 }] of Object.entries(found.programs))
      if ((await digestOf(join(folder, path))) !== sha256) return false
    const { files, bytes } = await sizeOf(folder)
    return files === found.files && bytes === found.bytes
  } catch {
    return false
  }
}

async function sizeOf(top: string): Promise<TreeSize> {
  let files = 0
  let bytes = 0
  for (const entry of await readdir(top, { recursive: true, withFileTypes: true })) {
    if (entry.isDirectory()) continue
    if (entry.parentPath === top && entry.name === HARNESS_MANIFEST) continue
    files += 1
    bytes += (await lstat(join(entry.parentPath, entry.name))).size
  }
  return { files, bytes }
}

async function digestOf(path: string): Promise<string> {
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(path, { highWaterMark: 1024 * 1024 }))
    hash.update(chunk as Buffer)
  return hash.digest('hex')
}
