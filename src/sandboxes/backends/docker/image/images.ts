/** The images of ours that an engine has: which they are, which of them are of this build, and which can go. */

import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { ImageInfo } from 'dockerode'
import { CraikError } from '../../../../errors.ts'
import { type HarnessStore, harnessName } from '../../../harness-package.ts'
import { faultOf, isGone } from '../engine/ask.ts'
import type { Engine } from '../engine/engine.ts'
import { IMAGE_LABELS, type ImageKind } from './dockerfile.ts'
import { wantedImage } from './ensure-image.ts'
import { imageHarnesses, imageKind, keepingName, ownNames, plainNames, wholeId } from './image-names.ts'
import { checkPackages } from './packages.ts'

export interface CraikImage {
  /** `sha256:…` */
  readonly id: string
  /** Undefined: it has none that Craik gave it when it was made. */
  readonly name: string | undefined
  /** The names by which homes keep it, that of this one too. */
  readonly keeping: readonly string[]
  readonly kind: ImageKind
  /** Those that were asked for, beyond the recipe's. */
  readonly packages: readonly string[]
  /** The ids of the agents' command lines in it. */
  readonly harnesses: readonly string[]
  readonly inputs: string
  readonly createdAtMs: number
  /** With what it shares with others. */
  readonly bytes: number
  /** Whether this build of Craik would make the same, and so uses this one. */
  readonly isCurrent: boolean
}

export interface Pruned {
  readonly removed: readonly CraikImage[]
  /** With the reason, for a person. */
  readonly kept: readonly { readonly image: CraikImage; readonly why: string }[]
}

export interface PruneOptions {
  readonly all?: boolean
  readonly signal?: AbortSignal
  readonly shelf?: HarnessStore
}

const REMOVE_DEADLINE_MS = 2 * 60_000
const NAMELESS = 'it has no name and may not be Craik’s:  docker image prune'

/** Newest first. Without a shelf, agents' command lines of any version are as good as this build's. */
export async function listImages(
  engine: Engine,
  craikHome: string,
  shelf?: HarnessStore,
): Promise<readonly CraikImage[]> {
  const found = await engine.ask('list images', () =>
    engine.docker.listImages({ filters: { label: [IMAGE_LABELS.kind] } }),
  )
  const folder = join(craikHome, 'cache/images')
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const current = new Map<string, ReadonlySet<string>>()
  const images: CraikImage[] = []
  for (const info of found) {
    const known = described(info)
    if (known === undefined) continue
    const { packages } = known
    const harnesses = currentIds(known.harnesses, shelf)
    const asked = [packages, harnesses].join(' ')
    if (!current.has(asked)) {
      const wanted = await wantedImage(engine, { packages, harnesses }, folder)
      const forGvisor = await wantedImage(engine, { packages, harnesses, readableNode: true }, folder)
      const all = [wanted.base, ...wanted.harnesses, wanted.sandbox, forGvisor.sandbox]
      current.set(asked, new Set(all.map(({ inputs }) => inputs)))
    }
    // What was made anew has taken the name; what had it before is of the same inputs, and past.
    const { isFirst, ...image } = known
    images.push({ ...image, isCurrent: isFirst && current.get(asked)!.has(known.inputs) })
  }
  return images.sort((a, b) => b.createdAtMs - a.createdAtMs)
}

/** By name, by its part after the colon, or by the beginning of its id. */
export async function showImage(
  engine: Engine,
  craikHome: string,
  asked: string,
  shelf?: HarnessStore,
): Promise<CraikImage> {
  const images = await listImages(engine, craikHome, shelf)
  const isAsked = ({ id, name }: CraikImage) =>
    name === asked ||
    name?.split(':')[1] === asked ||
    (/^(?:sha256:)?[0-9a-f]{6,64}$/.test(asked) && id.slice(7).startsWith(asked.replace(/^sha256:/, '')))
  const found = images.filter(isAsked)
  if (found.length === 1) return found[0]!
  const hint = 'list the images:  craik image list'
  if (found.length > 1) throw new CraikError('usage', `${asked} matches ${found.length} images`, { hint })
  throw new CraikError('not_found', `the engine at ${engine.address} has no Craik image ${asked}`, {
    hint,
  })
}

/**
 * Removes the images of other builds, or with `all` every one, but never one that is in use: pinned by a record of
 * ours, kept by another home, or of a container of whomever. What has no name of Craik's may be somebody else's.
 */
export async function pruneImages(
  engine: Engine,
  craikHome: string,
  inUse: ReadonlySet<string>,
  { all = false, signal, shelf }: PruneOptions = {},
): Promise<Pruned> {
  const removed: CraikImage[] = []
  const kept: { image: CraikImage; why: string }[] = []
  for (const image of await listImages(engine, craikHome, shelf)) {
    signal?.throwIfAborted()
    if (inUse.has(image.id)) kept.push({ image, why: 'a sandbox or snapshot uses it' })
    else if (image.name === undefined && image.keeping.length === 0) kept.push({ image, why: NAMELESS })
    else if (image.keeping.some((name) => name !== keepingName(craikHome, image.id)))
      kept.push({ image, why: 'another Craik home on this engine may use it' })
    else if (image.isCurrent && !all) kept.push({ image, why: 'this build of Craik uses it' })
    else {
      const why = await remove(engine, image)
      if (why === undefined) removed.push(image)
      else kept.push({ image, why })
    }
  }
  return { removed, kept }
}

/** By its own names: then a name that somebody else gave it keeps it. Never by force. */
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

function described(info: ImageInfo): Described | undefined {
  const kind = imageKind(info.Labels)
  if (kind === undefined) return undefined
  const { made, isFirst, keeping } = ownNames(info.Id, info.RepoTags, info.Labels)
  // Somebody made it from one of ours, and it has our labels from there.
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

/** Labels are what somebody with the engine's rights wrote. */
function readable(packages: readonly string[]): readonly string[] {
  try {
    return checkPackages(packages)
  } catch {
    return []
  }
}

/** What this build would put there under the same names. */
function currentIds(ids: readonly string[], shelf: HarnessStore | undefined): readonly string[] {
  try {
    return shelf?.ids(ids.map(harnessName)) ?? ids
  } catch {
    // One that this build does not know, or not for this kind of processor.
    return ids
  }
}
