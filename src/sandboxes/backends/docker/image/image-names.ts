/** Which names of an image are Craik's own: the one that it was made under, and those by which homes keep it. */
import { isHarnessId, MAX_HARNESSES } from '../../../harness-package.ts'
import { homeRepository } from '../names.ts'
import { IMAGE_KINDS, IMAGE_LABELS, type ImageKind, type ImageLabels } from './dockerfile.ts'

const REPOSITORY = { base: 'craik/base', harness: 'craik/harness', sandbox: 'craik/sandbox' } as const
const SHORT_CHARS = 12
const KEEPING = /^craik\/home-[0-9a-f]{16}:[0-9a-f]{12}$/

export interface OwnNames {
  /** Undefined when somebody else made it, whatever labels it inherited. */
  readonly made: string | undefined
  /** Whether it has the first name, which what is made anew of the same takes. */
  readonly isFirst: boolean
  /** One for each home that made a container of it. */
  readonly keeping: readonly string[]
}

export function imageName({ kind, inputs }: Pick<ImageLabels, 'kind' | 'inputs'>): string {
  return `${REPOSITORY[kind]}:${inputs.slice(0, SHORT_CHARS)}`
}

/** Of what had the first name before. */
export function replacementName(labels: Pick<ImageLabels, 'kind' | 'inputs'>, id: string): string {
  return `${imageName(labels)}-${shortId(id)}`
}

/** Stopped sandboxes have no container: this is how an engine knows that a home may need the image again. */
export function keepingName(craikHome: string, id: string): string {
  return `${homeRepository(craikHome)}:${shortId(id)}`
}

/** Labels are inherited by whatever is built from an image, and so are no proof; names are not. */
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

/** Which of the agents' command lines it says are in it; labels are what somebody with the engine's rights wrote. */
export function imageHarnesses(
  labels: Readonly<Record<string, string>> | null | undefined,
): readonly string[] {
  const ids = (labels?.[IMAGE_LABELS.harnesses] ?? '').split(',').filter((id) => id !== '')
  return ids.length <= MAX_HARNESSES && ids.every(isHarnessId) ? ids : []
}

/** Podman says where a name is from: of what was made here localhost, or over this API Docker's registry. */
export function plainNames(tags: readonly string[] | null | undefined): readonly string[] {
  return (tags ?? [])
    .map((name) => name.replace(/^(?:localhost|docker\.io)\//, ''))
    .filter((name) => name !== '<none>:<none>')
}

/** `sha256:…`, also of an engine that leaves that out. */
export function wholeId(id: string): string {
  return id.startsWith('sha256:') ? id : `sha256:${id}`
}

function shortId(id: string): string {
  return wholeId(id).slice('sha256:'.length).slice(0, SHORT_CHARS)
}
