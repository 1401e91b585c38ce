/** `craik image list` and `show`: print Craik's images in the engine. */
import { Command } from 'commander'
import type { Json } from '../../lib/canonical-json.ts'
import { formatDuration } from '../../lib/duration.ts'
import type { CraikImage } from '../../sandboxes/backends/docker/image/images.ts'
import { agentsOf, harnessName } from '../../sandboxes/harness-package.ts'
import type { CliContext } from '../context.ts'
import { type Column, formatOption, printable, printRecord, printRows } from '../output.ts'
import { formatBytes } from '../sandbox/amounts.ts'
import { type ImageUse, type ImageUsers, readImageUse, usersOf } from './in-use.ts'
import { engineOf } from './open-engine.ts'

interface FormatOptions {
  readonly format?: string
}

export function listImagesCommand(context: CliContext): Command {
  return new Command('list')
    .description('list Craik’s images in the engine')
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik image list --format json\n')
    .action(async (options: FormatOptions) => {
      const { listImages } = await import('../../sandboxes/backends/docker/image/images.ts')
      const { harnessStore } = await import('../../harnesses/packages/harness-store.ts')
      const images = await listImages(await engineOf(context), context.home.root, harnessStore)
      const use = await readImageUse(context, images)
      const columns = imageColumns(use, context.clock.nowMs())
      printRows(context, options, images, columns, (image) => imageJson(image, use))
    })
}

export function showImageCommand(context: CliContext): Command {
  return new Command('show')
    .description('show an image: what is in it, and which sandboxes use it')
    .argument('<image>', 'name, or the start of the id')
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik image list\n  craik image show craik/sandbox:0123456789ab\n')
    .action(async (requested: string, options: FormatOptions) => {
      const { listImages, showImage } = await import('../../sandboxes/backends/docker/image/images.ts')
      const { harnessStore } = await import('../../harnesses/packages/harness-store.ts')
      const engine = await engineOf(context)
      const image = await showImage(engine, context.home.root, requested, harnessStore)
      const use = await readImageUse(context, await listImages(engine, context.home.root))
      printRecord(context, options, imageJson(image, use), () => describe(image, use, context.clock.nowMs()))
    })
}

export function imageJson(image: CraikImage, use: ImageUse): Json {
  return {
    id: image.id,
    name: image.name ?? null,
    kind: image.kind,
    packages: image.packages,
    harnesses: agentsOf(image.harnesses),
    inputs: image.inputs,
    created_at_ms: image.createdAtMs,
    bytes: image.bytes,
    current: image.isCurrent,
    ...usersOf(use, image.id),
  }
}

function imageColumns(use: ImageUse, nowMs: number): readonly Column<CraikImage>[] {
  return [
    { title: 'image', value: ({ name, id }) => name ?? id.slice(0, 19) },
    {
      title: 'packages',
      value: ({ packages }) => (packages.length === 0 ? '–' : packages.join(',')),
      canShorten: true,
    },
    { title: 'harnesses', value: ({ harnesses }) => namesOf(agentsOf(harnesses)), canShorten: true },
    { title: 'size', value: ({ bytes }) => formatBytes(bytes) },
    {
      title: 'age',
      value: ({ createdAtMs }) => formatDuration(Math.max(0, nowMs - createdAtMs)),
      dropOrder: 3,
    },
    { title: 'sandboxes', value: ({ id }) => String(usersOf(use, id).sandboxes.length), dropOrder: 2 },
    { title: 'snapshots', value: ({ id }) => String(usersOf(use, id).snapshots.length), dropOrder: 1 },
    { title: 'state', value: ({ isCurrent }) => (isCurrent ? 'current' : 'old') },
  ]
}

function describe(image: CraikImage, use: ImageUse, nowMs: number): string {
  const rows: readonly (readonly [string, string])[] = [
    ['image', image.name ?? '(no name)'],
    ['id', image.id],
    ['kind', KINDS[image.kind]],
    ['packages', image.packages.length === 0 ? 'default' : `default, ${image.packages.join(', ')}`],
    ['harnesses', image.harnesses.length === 0 ? 'none' : image.harnesses.join(', ')],
    ['inputs', image.inputs],
    ['built', `${formatDuration(Math.max(0, nowMs - image.createdAtMs))} ago`],
    ['size', formatBytes(image.bytes)],
    [
      'state',
      image.isCurrent ? 'current: this build of Craik uses it' : 'old: from another build, or replaced',
    ],
    ['used by', describeUsers(usersOf(use, image.id))],
  ]
  return rows.map(([name, value]) => `  ${name.padEnd(9)} ${printable(value)}\n`).join('')
}

const KINDS: Readonly<Record<CraikImage['kind'], string>> = {
  base: 'root file system',
  harness: 'root file system with npm and harnesses',
  sandbox: 'complete image of a sandbox, with Craik’s own program',
}

function namesOf(harnesses: readonly string[]): string {
  return harnesses.length === 0 ? '–' : harnesses.map(harnessName).join(',')
}

function describeUsers({ sandboxes, snapshots }: ImageUsers): string {
  const message = [
    ...(sandboxes.length === 0 ? [] : [`sandboxes ${sandboxes.join(', ')}`]),
    ...(snapshots.length === 0 ? [] : [`snapshots ${snapshots.join(', ')}`]),
  ]
  return message.length === 0 ? 'no sandbox or snapshot' : message.join(' · ')
}
