/** The Dockerfiles that an engine builds from. Inserted values are JSON, and no shell reads them. */
import { CraikError } from '../../../../errors.ts'
import { INSIDE, SIDECAR_NODE_FLAGS } from '../../../../sidecar/protocol.ts'
import { harnessInside } from '../../../harness-package.ts'

/** `harness`: a root file system with harnesses. Craik's own program is the layer above it. */
export const IMAGE_KINDS = ['base', 'harness', 'sandbox'] as const
export type ImageKind = (typeof IMAGE_KINDS)[number]

/** The labels of each of Craik's images. */
export interface ImageLabels {
  readonly kind: ImageKind
  /** The whole key. The image's name contains its first characters. */
  readonly inputs: string
  /** The requested packages, in addition to the recipe's. */
  readonly packages: readonly string[]
  /** The ids of its harnesses, lowest layer first. Omitted when it has none. */
  readonly harnesses?: readonly string[]
}

export const IMAGE_LABELS = {
  kind: 'craik.image',
  inputs: 'craik.inputs',
  packages: 'craik.packages',
  harnesses: 'craik.harnesses',
} as const

const PLACEHOLDER = '"@PACKAGES@"'
const USER = '1000:1000'

/** Returns one LABEL instruction for a Dockerfile. */
export function labelInstruction(labels: ImageLabels): string {
  return `LABEL ${labelWords(labels).join(' ')}`
}

/** Returns the same labels for an import, where Podman sets one label per instruction. */
export function labelChanges(labels: ImageLabels): string[] {
  return labelWords(labels).map((word) => `LABEL ${word}`)
}

function labelWords({ kind, inputs, packages, harnesses = [] }: ImageLabels): string[] {
  const values = {
    [IMAGE_LABELS.kind]: kind,
    [IMAGE_LABELS.inputs]: inputs,
    [IMAGE_LABELS.packages]: packages.join(','),
    ...(harnesses.length > 0 && { [IMAGE_LABELS.harnesses]: harnesses.join(',') }),
  }
  return Object.entries(values).map(([name, value]) => `${name}=${JSON.stringify(value)}`)
}

/** Returns the recipe's Dockerfile with the packages inserted. */
export function baseDockerfile(template: string, packages: readonly string[], labels: ImageLabels): string {
  if (template.split(PLACEHOLDER).length !== 2)
    throw new CraikError('internal', 'image/Dockerfile must have exactly one placeholder for its packages')
  const names = packages.map((name) => JSON.stringify(name)).join(', ')
  // The replacement is a function, because a `$` in a replacement text has a special meaning.
  return `${template.replace(PLACEHOLDER, () => names).trimEnd()}\n${labelInstruction(labels)}\n`
}

/** How the image starts. The container's configuration sets all of this again, and more. */
export const SANDBOX_CONFIG = `COPY craik ${INSIDE.runtime}
ENV LANG=C.UTF-8
USER ${USER}
WORKDIR ${INSIDE.home}
ENTRYPOINT ${JSON.stringify([
  '/usr/bin/tini',
  '--',
  `${INSIDE.runtime}/node`,
  ...SIDECAR_NODE_FLAGS,
  `${INSIDE.runtime}/sidecar.mjs`,
])}
`

/**
 * Returns the Dockerfile that adds Craik's program to a root file system. Labels come first, so that every unfinished
 * step has them.
 */
export function sandboxDockerfile(baseId: string, labels: ImageLabels): string {
  return `FROM ${baseId}\n${labelInstruction(labels)}\n${SANDBOX_CONFIG}`
}

/** Returns the Dockerfile that adds one harness, in a layer of its own. */
export function harnessDockerfile(parentId: string, labels: ImageLabels): string {
  const inside = harnessInside(labels.harnesses!.at(-1)!)
  return `FROM ${parentId}\n${labelInstruction(labels)}\nCOPY harness ${inside}\n`
}
