/** Which images the records of this home name: they are needed again whenever a sandbox is resumed or a snapshot used. */
import { existsSync } from 'node:fs'
import type { CraikImage } from '../../sandboxes/backends/docker/image/images.ts'
import type { CliContext } from '../context.ts'

/** By name. */
export interface ImageUsers {
  readonly sandboxes: readonly string[]
  readonly snapshots: readonly string[]
}

/** By the image's id. */
export type ImageUse = ReadonlyMap<string, ImageUsers>

/** More than a home can hold. */
const ALL = 100_000

/**
 * Every id that stands anywhere in a record counts, whatever else is wrong with the record: keeping one too many costs
 * space, removing one too many a sandbox or a snapshot.
 */
export async function readImageUse(context: CliContext, images: readonly CraikImage[]): Promise<ImageUse> {
  const use = new Map<string, { sandboxes: string[]; snapshots: string[] }>()
  if (!existsSync(context.home.database)) return use
  const store = await context.store()
  const found = await store.read(async (tables) => ({
    sandboxes: await tables.sandboxes.list({}, ALL),
    snapshots: await tables.snapshots.list({}, ALL),
  }))
  for (const kind of ['sandboxes', 'snapshots'] as const)
    for (const { id, document } of found[kind])
      for (const image of imagesIn(document, images)) {
        const users = use.get(image) ?? { sandboxes: [], snapshots: [] }
        users[kind].push(nameIn(document) ?? id)
        use.set(image, users)
      }
  return use
}

/** What was lost and made anew is meant by its name. */
function imagesIn(document: string, images: readonly CraikImage[]): ReadonlySet<string> {
  const ids = new Set<string>(document.match(/sha256:[0-9a-f]{64}/g))
  if (images.some(({ id }) => ids.has(id))) return ids
  const names = new Set<string>(document.match(/craik\/sandbox:[0-9a-f]{12}(?![0-9a-f-])/g))
  return new Set([...ids, ...images.filter(({ name }) => name && names.has(name)).map(({ id }) => id)])
}

export function usersOf(use: ImageUse, image: string): ImageUsers {
  return use.get(image) ?? { sandboxes: [], snapshots: [] }
}

function nameIn(document: string): string | undefined {
  try {
    const { name } = JSON.parse(document) as { readonly name?: unknown }
    return typeof name === 'string' ? name.slice(0, 64) : undefined
  } catch {
    return undefined
  }
}
