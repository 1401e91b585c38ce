/** The texts that an engine builds from. Whatever is put into them is JSON, and goes to no shell. */
import { CraikError } from '../../../../errors.ts'
import { INSIDE, SIDECAR_NODE_FLAGS } from '../../../../sidecar/protocol.ts'
import { harnessInside } from '../../../harness-package.ts'

/** `harness`: a root file system with agents' command lines, on which Craik's own program is put last. */
export const IMAGE_KINDS = ['base', 'harness', 'sandbox'] as const
export type ImageKind = (typeof IMAGE_KINDS)[number]

/** What every image of ours says of itself. */
export interface ImageLabels {
  readonly kind: ImageKind
  /** The whole key; the name has the beginning of it. */
  readonly inputs: string
  /** Those that were asked for, beyond the recipe's. */
  readonly packages: readonly string[]
  /** The ids of the agents' command lines in it, lowest layer first; left out: none. */
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

/** One instruction, as an engine takes it in a file. */
export function labelInstruction(labels: ImageLabels): string {
  return `LABEL ${labelWords(labels).join(' ')}`
}

/** The same for an import: with Podman an instruction there sets one label. */
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

/** The recipe's own file with the packages in it. */
export function baseDockerfile(template: string, packages: readonly string[], labels: ImageLabels): string {
  if (template.split(PLACEHOLDER).length !== 2)
    throw new CraikError('internal', 'image/Dockerfile must have exactly one placeholder for its packages')
  const names = packages.map((name) => JSON.stringify(name)).join(', ')
  // By a function: a `$` in the text that is put in would mean something.
  return `${template.replace(PLACEHOLDER, () => names).trimEnd()}\n${labelInstruction(labels)}\n`
}

/** How the image is started; a sandbox says all of it again, and more, when its container is made. */
export const SANDBOX_CONFIG = `COPY craik ${INSIDE.runtime}
ENV LANG=C.UTF-8
USER ${USER}
WORKDIR ${INSIDE.home}
ENTRYPOINT ${JSON.stringify([
  ...['/usr/bin/tini', '--', `${INSIDE.runtime}/node`],
  ...[...SIDECAR_NODE_FLAGS, `${INSIDE.runtime}/sidecar.mjs`],
])}
`

/** The root file system, and the program that runs in every sandbox. Labelled first, so that no unfinished step is nameless. */
export function sandboxDockerfile(baseId: string, labels: ImageLabels): string {
  return `FROM ${baseId}\n${labelInstruction(labels)}\n${SANDBOX_CONFIG}`
}

/** One of the agents' command lines, in a layer of its own. */
export function harnessDockerfile(parentId: string, labels: ImageLabels): string {
  const inside = harnessInside(labels.harnesses!.at(-1)!)
  return `FROM ${parentId}\n${labelInstruction(labels)}\nCOPY harness ${inside}\n`
}
