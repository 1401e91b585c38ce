/** Decides which names of an image are Craik's own: its first one, and those by which homes keep it. */
import { isHarnessId, MAX_HARNESSES } from '../../../harness-package.ts'
import { homeRepository } from '../container-names.ts'
import { IMAGE_KINDS, IMAGE_LABELS, type ImageKind, type ImageLabels } from './dockerfile.ts'

const REPOSITORY = { base: 'craik/base', harness: 'craik/harness', sandbox: 'craik/sandbox' } as const
const SHORT_CHARS = 12
const KEEPING = /^craik\/home-[0-9a-f]{16}:[0-9a-f]{12}$/

export interface OwnNames {
  /** Undefined when somebody else built it, whatever labels it inherited. */
  readonly made: string | undefined
  /** Whether it has the first name. A newer image with the same inputs takes that name. */
  readonly isFirst: boolean
  /** One name for each home that created a container from it. */
  readonly keeping: readonly string[]
}

export function imageName({ kind, inputs }: Pick<ImageLabels, 'kind' | 'inputs'>): string {
  return `${REPOSITORY[kind]}:${inputs.slice(0, SHORT_CHARS)}`
}

/** Returns the new name of an image that loses its first name. */
export function replacementName(labels: Pick<ImageLabels, 'kind' | 'inputs'>, id: string): string {
  return `${imageName(labels)}-${shortId(id)}`
}

/**
 * Returns the name by which a home keeps an image. Stopped sandboxes have no container, so the engine could not tell
 * that the home still needs it.
 */
export function keepingName(craikHome: string, id: string): string {
  return `${homeRepository(craikHome)}:${shortId(id)}`
}

/** Returns Craik's names of an image. Every image built from it inherits its labels, so only names prove the origin. */
export function ownNames(
  id: string,
  tags: readonly string[] | null | undefined,
  labels: Readonly<Record<string, string>> | null | undefined,
): OwnNames {
  const kind = imageKind(labels)
  const inputs = labels?.[IMAGE_LABELS.inputs] ?? ''
  if (kind === undefined || !/^[0-9a-f]{64}$/.test(inputs))
    return { made: undefined, isFirst: false, keeping: [] }
  const names = plainNames(tags)
  const first = imageName({ kind, inputs })
  const made = [first, replacementName({ kind, inputs }, id)].find((name) => names.includes(name))
  const keeping = names.filter((name) => KEEPING.test(name) && name.endsWith(`:${shortId(id)}`))
  return { made, isFirst: made === first, keeping }
}

export function imageKind(
  labels: Readonly<Record<string, string>> | null | undefined,
): ImageKind | undefined {
  return IMAGE_KINDS.find((kind) => kind === labels?.[IMAGE_LABELS.kind])
}

/**
 * Returns the ids of the image's harnesses according to its labels. Any user of the engine can write labels, so it
 * checks them.
 */
export function imageHarnesses(
  labels: Readonly<Record<string, string>> | null | undefined,
): readonly string[] {
  const ids = (labels?.[IMAGE_LABELS.harnesses] ?? '').split(',').filter((id) => id !== '')
  return ids.length <= MAX_HARNESSES && ids.every(isHarnessId) ? ids : []
}

/**
 * Returns the names without the registry. Podman prefixes local images with localhost, or through this API with
 * Docker's registry.
 */
export function plainNames(tags: readonly string[] | null | undefined): readonly string[] {
  return (tags ?? [])
    .map((name) => name.replace(/^(?:localhost|docker\.io)\//, ''))
    .filter((name) => name !== '<none>:<none>')
}

/** Returns the id with `sha256:`, which some engines omit. */
export function wholeId(id: string): string {
  return id.startsWith('sha256:') ? id : `sha256:${id}`
}

function shortId(id: string): string {
  return wholeId(id).slice('sha256:'.length).slice(0, SHORT_CHARS)
}
