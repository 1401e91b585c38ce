/** `craik harness info`: shows all facts about one harness. */
import { Command } from 'commander'
import { INSIDE } from '../../sidecar/protocol.ts'
import type { CliContext } from '../context.ts'
import { formatOption, printable, printRecord } from '../output.ts'
import { formatBytes } from '../sandbox/amounts.ts'
import { type HarnessRow, harnessRow } from './harness-rows.ts'
import { harnessJson } from './list.ts'

interface InfoOptions {
  readonly format?: string
}

export function infoCommand(context: CliContext): Command {
  return new Command('info')
    .description('show a harness: its programs, paths, requirements and login')
    .argument('<name>', 'harness, such as codex')
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik harness info codex\n')
    .action(async (name: string, options: InfoOptions) => {
      const row = await harnessRow(context, name)
      printRecord(context, options, harnessJson(row), () => describe(row))
    })
}

const PROPRIETARY = 'proprietary: for use on this machine, not for redistribution'

function describe({ name, source, installed, older, images, logins }: HarnessRow): string {
  if (source === undefined) return `  ${name}  is not available for this processor\n`
  const { settings, version, packages } = source
  const needsNode = Object.values(settings.programs).some((program) => 'node' in program)
  const rows: readonly (readonly [string, string])[] = [
    ['harness', `${settings.title} ${version}`],
    ['programs', Object.keys(settings.programs).join(', ')],
    ['inside', `${INSIDE.harnesses}/${name}/bin, on PATH`],
    [
      'installed',
      installed === undefined
        ? `no:  craik harness install ${name}`
        : `${formatBytes(installed.bytes)} in ${installed.files.toLocaleString('en')} files · ${installed.folder}`,
    ],
    ...(older.length === 0 ? [] : [['older', older.map(({ id }) => id).join(', ')] as const]),
    ['images', images === undefined ? 'unknown: no container engine' : images.join(', ') || 'none'],
    ['speaks', settings.wire],
    [
      'needs',
      needsNode
        ? `a model, through the gateway; Node, at ${INSIDE.runtime}/node`
        : 'a model, through the gateway',
    ],
    ['login', logins.join(', ') || 'none found:  craik accounts'],
    ['license', settings.license === 'proprietary' ? PROPRIETARY : settings.license],
    [
      'packages',
      Object.entries(packages)
        .map(([one, exact]) => `${one} ${exact}`)
        .join(', '),
    ],
  ]
  return rows.map(([label, value]) => `  ${label.padEnd(9)} ${printable(value)}\n`).join('')
}
