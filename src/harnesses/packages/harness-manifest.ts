/** Describes an installed harness in a manifest, and checks whether the manifest still matches. */
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
  /** The number of files without the manifest itself. */
  files: z.int().nonnegative(),
  bytes: z.int().nonnegative(),
  /** The files that the wrappers in `bin` start, relative to the folder. */
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

/** Returns undefined when there is no readable manifest. */
export async function readManifest(folder: string): Promise<HarnessManifest | undefined> {
  try {
    return manifestSchema.parse(JSON.parse(await readFile(join(folder, HARNESS_MANIFEST), 'utf8')))
  } catch {
    return undefined
  }
}

/** Checks quickly whether the manifest has this key and the programs exist with the recorded sizes. */
export async function isInstalled(folder: string, { key }: Pick<PackageSource, 'key'>): Promise<boolean> {
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

/** Checks every byte of the programs, and the number and total size of all files. This takes a second or two. */
export async function isIntact(folder: string, source: Pick<PackageSource, 'key'>): Promise<boolean> {
  if (!(await isInstalled(folder, source))) return false
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
