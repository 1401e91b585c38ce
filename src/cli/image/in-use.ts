/**
 * Finds the images that the records of this home name. Resuming a sandbox and using a snapshot need their image again.
 */
import { existsSync } from 'node:fs'
import type { CraikImage } from '../../sandboxes/backends/docker/image/images.ts'
import type { CliContext } from '../context.ts'

/** The names of the sandboxes and snapshots that use an image. */
export interface ImageUsers {
  readonly sandboxes: readonly string[]
  readonly snapshots: readonly string[]
}

/** The users of each image, by the image's id. */
export type ImageUse = ReadonlyMap<string, ImageUsers>

/** More records than a home can contain. */
const ALL = 100_000

/**
 * Collects the ids from anywhere in the records, even in a damaged record. Keeping one image too many costs space.
 * Removing one image too many costs a sandbox or a snapshot.
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

/** An image that was lost and rebuilt has another id, so its name identifies it. */
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
