/** `craik harness list`: lists the harnesses, and which of them are installed on this host. */
import { Command } from 'commander'
import type { Json } from '../../lib/canonical-json.ts'
import type { CliContext } from '../context.ts'
import { type Column, formatOption, printRows } from '../output.ts'
import { formatBytes } from '../sandbox/amounts.ts'
import { type HarnessRow, harnessRows } from './harness-rows.ts'

interface ListOptions {
  readonly format?: string
}

const HELP = `
Not listed: fixture, a part of Craik that simulates an agent for tests. It uses
no model and no network.

Example:
  craik harness list
`

export function listHarnessesCommand(context: CliContext): Command {
  return new Command('list')
    .description('list the harnesses (programs of agents) that sandboxes can use')
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async (options: ListOptions) => {
      printRows(context, options, await harnessRows(context), COLUMNS, harnessJson)
    })
}

const COLUMNS: readonly Column<HarnessRow>[] = [
  { title: 'harness', value: ({ name }) => name },
  { title: 'version', value: ({ source }) => source?.version ?? 'not for this processor' },
  {
    title: 'installed',
    value: ({ installed }) => (installed === undefined ? 'no' : formatBytes(installed.bytes)),
  },
  {
    title: 'images',
    value: ({ images }) => (images === undefined ? '–' : String(images.length)),
    dropOrder: 1,
  },
  { title: 'login', value: ({ logins }) => (logins.length === 0 ? 'none' : 'found'), dropOrder: 3 },
  { title: 'license', value: ({ source }) => source?.settings.license ?? '–', dropOrder: 2 },
]

export function harnessJson({ name, source, installed, older, images, logins }: HarnessRow): Json {
  return {
    name,
    title: source?.settings.title ?? null,
    version: source?.version ?? null,
    id: source?.id ?? null,
    license: source?.settings.license ?? null,
    wire: source?.settings.wire ?? null,
    programs: Object.keys(source?.settings.programs ?? {}),
    packages: { ...source?.packages },
    installed: installed
      ? { folder: installed.folder, files: installed.files, bytes: installed.bytes }
      : null,
    older: older.map(({ id, bytes }) => ({ id, bytes })),
    images: images === undefined ? null : [...images],
    logins: [...logins],
  }
}
