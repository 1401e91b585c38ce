/** Lists Craik's images in an engine, tells which ones this build uses, and removes others. */

import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { ImageInfo } from 'dockerode'
import { CraikError } from '../../../../errors.ts'
import { type HarnessStore, harnessName } from '../../../harness-package.ts'
import type { Engine } from '../engine/engine.ts'
import { faultOf, isGone } from '../engine/engine-request.ts'
import { IMAGE_LABELS, type ImageKind } from './dockerfile.ts'
import { resolveImage } from './ensure-image.ts'
import { imageHarnesses, imageKind, keepingName, ownNames, plainNames, wholeId } from './image-names.ts'
import { checkPackages } from './packages.ts'

export interface CraikImage {
  /** `sha256:…` */
  readonly id: string
  /** Undefined when it has no name from Craik's build. */
  readonly name: string | undefined
  /** The names by which homes keep it, including this home's. */
  readonly keeping: readonly string[]
  readonly kind: ImageKind
  /** The requested packages, in addition to the recipe's. */
  readonly packages: readonly string[]
  /** The ids of its harnesses. */
  readonly harnesses: readonly string[]
  readonly inputs: string
  readonly createdAtMs: number
  /** Includes layers that it shares with other images. */
  readonly bytes: number
  /** Whether this build of Craik would build the same image, and so uses this one. */
  readonly isCurrent: boolean
}

export interface Pruned {
  readonly removed: readonly CraikImage[]
  /** Each with the reason, as text for people. */
  readonly kept: readonly { readonly image: CraikImage; readonly why: string }[]
}

export interface PruneOptions {
  readonly all?: boolean
  readonly signal?: AbortSignal
  readonly packageStore?: HarnessStore
}

const REMOVE_DEADLINE_MS = 2 * 60_000
const NAMELESS = 'it has no name and may not be Craik’s:  docker image prune'

/** Lists the images, newest first. Without a package store, harnesses of any version count as this build's. */
export async function listImages(
  engine: Engine,
  craikHome: string,
  packageStore?: HarnessStore,
): Promise<readonly CraikImage[]> {
  const found = await engine.ask('list images', () =>
    engine.docker.listImages({ filters: { label: [IMAGE_LABELS.kind] } }),
  )
  const folder = join(craikHome, 'cache/images')
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const current = new Map<string, ReadonlySet<string>>()
  const images: CraikImage[] = []
  for (const info of found) {
    const known = describeImage(info)
    if (known === undefined) continue
    const { packages } = known
    const harnesses = currentIds(known.harnesses, packageStore)
    const requested = [packages, harnesses].join(' ')
    if (!current.has(requested)) {
      const wanted = await resolveImage(engine, { packages, harnesses }, folder)
      const forGvisor = await resolveImage(engine, { packages, harnesses, readableNode: true }, folder)
      const all = [wanted.base, ...wanted.harnesses, wanted.sandbox, forGvisor.sandbox]
      current.set(requested, new Set(all.map(({ inputs }) => inputs)))
    }
    // A newer build has the name by then. The older image has the same inputs but is outdated.
    const { isFirst, ...image } = known
    images.push({ ...image, isCurrent: isFirst && current.get(requested)!.has(known.inputs) })
  }
  return images.sort((a, b) => b.createdAtMs - a.createdAtMs)
}

/** Finds an image by its name, by the part after the colon, or by a prefix of its id. */
export async function showImage(
  engine: Engine,
  craikHome: string,
  requested: string,
  packageStore?: HarnessStore,
): Promise<CraikImage> {
  const images = await listImages(engine, craikHome, packageStore)
  const isAsked = ({ id, name }: CraikImage) =>
    name === requested ||
    name?.split(':')[1] === requested ||
    (/^(?:sha256:)?[0-9a-f]{6,64}$/.test(requested) &&
      id.slice(7).startsWith(requested.replace(/^sha256:/, '')))
  const found = images.filter(isAsked)
  if (found.length === 1) return found[0]!
  const hint = 'list the images:  craik image list'
  if (found.length > 1) throw new CraikError('usage', `${requested} matches ${found.length} images`, { hint })
  throw new CraikError('not_found', `the engine at ${engine.address} has no Craik image ${requested}`, {
    hint,
  })
}

/**
 * Removes the images of other builds, or with `all` every image, but never one in use. In use means that a record of
 * this home names it, another home keeps it, or any container uses it. It keeps images without a name from Craik,
 * because they can belong to somebody else.
 */
export async function pruneImages(
  engine: Engine,
  craikHome: string,
  inUse: ReadonlySet<string>,
  { all = false, signal, packageStore: shelf }: PruneOptions = {},
): Promise<Pruned> {
  const removed: CraikImage[] = []
  const stored: { image: CraikImage; why: string }[] = []
  for (const image of await listImages(engine, craikHome, shelf)) {
    signal?.throwIfAborted()
    if (inUse.has(image.id)) stored.push({ image, why: 'a sandbox or snapshot uses it' })
    else if (image.name === undefined && image.keeping.length === 0) stored.push({ image, why: NAMELESS })
    else if (image.keeping.some((name) => name !== keepingName(craikHome, image.id)))
      stored.push({ image, why: 'another Craik home on this engine may use it' })
    else if (image.isCurrent && !all) stored.push({ image, why: 'this build of Craik uses it' })
    else {
      const why = await remove(engine, image)
      if (why === undefined) removed.push(image)
      else stored.push({ image, why })
    }
  }
  return { removed, kept: stored }
}

/** Removes an image by Craik's own names and never by force. A name that somebody else added therefore keeps it. */
async function remove(engine: Engine, { name, keeping }: CraikImage): Promise<string | undefined> {
  const options = { deadlineMs: REMOVE_DEADLINE_MS }
  for (const one of [...keeping, ...(name === undefined ? [] : [name])])
    try {
      await engine.ask('remove an image', () => engine.docker.getImage(one).remove(), options)
    } catch (error) {
      if (faultOf(error) === 'refused') return 'another container or image uses it'
      if (!isGone(error)) throw error
    }
  return undefined
}

type Described = Omit<CraikImage, 'isCurrent'> & { readonly isFirst: boolean }

function describeImage(info: ImageInfo): Described | undefined {
  const kind = imageKind(info.Labels)
  if (kind === undefined) return undefined
  const { made, isFirst, keeping } = ownNames(info.Id, info.RepoTags, info.Labels)
  // Somebody built this image from one of Craik's, which is where its labels come from.
  const isForeign = made === undefined && keeping.length === 0 && plainNames(info.RepoTags).length > 0
  if (isForeign) return undefined
  const packages = (info.Labels[IMAGE_LABELS.packages] ?? '').split(',').filter((name) => name !== '')
  return {
    id: wholeId(info.Id),
    name: made,
    isFirst,
    keeping,
    kind,
    packages: readable(packages),
    harnesses: imageHarnesses(info.Labels),
    inputs: info.Labels[IMAGE_LABELS.inputs] ?? '',
    createdAtMs: info.Created * 1000,
    bytes: info.Size,
  }
}

/** Any user of the engine can write labels. */
function readable(packages: readonly string[]): readonly string[] {
  try {
    return checkPackages(packages)
  } catch {
    return []
  }
}

/** Returns the ids that this build would use for the same harnesses. */
function currentIds(ids: readonly string[], packageStore: HarnessStore | undefined): readonly string[] {
  try {
    return packageStore?.ids(ids.map(harnessName)) ?? ids
  } catch {
    // This build does not know one of them, or not for this processor architecture.
    return ids
  }
}
