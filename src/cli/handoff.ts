/** `craik handoff`: lists and shows the reports of runs. */
import { Command, Option } from 'commander'
import type { Json } from '../lib/canonical-json.ts'
import type { Handoff } from '../run/agents/handoff.ts'
import type { Checked, Listed } from '../run/agents/read-agent-records.ts'
import { listFallbacks } from './agent/fallbacks.ts'
import { recordDeps } from './agent/open-run-deps.ts'
import { printHiddenRecords, requireOwnRecord } from './agent/own-records.ts'
import type { CliContext, NounBuilder } from './context.ts'
import { type Column, formatOption, printable, printRecord, printRows } from './output.ts'

export const handoffCommand: NounBuilder = (context) =>
  new Command('handoff').addCommand(listCommand(context)).addCommand(showCommand(context))

const COLUMNS: readonly Column<Listed<Handoff>>[] = [
  { title: 'id', value: ({ id }) => id },
  { title: 'status', value: ({ record }) => record?.status ?? '–' },
  { title: 'mode', value: ({ record }) => record?.execution_mode ?? '–', dropOrder: 2 },
  { title: 'run', value: ({ record }) => record?.run_id ?? '–', dropOrder: 1 },
  { title: 'summary', value: ({ record }) => record?.summary ?? '–', canShorten: true },
  { title: 'seal', value: ({ status }) => status, dropOrder: 3 },
]

function listCommand(context: CliContext): Command {
  return new Command('list')
    .description('list handoffs (reports of runs), newest first')
    .addOption(
      new Option('--status <status>', 'only handoffs with this status').choices([
        'completed',
        'incomplete',
        'blocked',
        'failed',
      ]),
    )
    .option('--session <id>', 'only handoffs of this session')
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik handoff list --status blocked\n')
    .action(
      async (flags: { readonly status?: string; readonly session?: string; readonly format?: string }) => {
        const { listOwnHandoffs } = await import('../run/agents/read-agent-records.ts')
        const filter = {
          ...(flags.status !== undefined && { status: flags.status }),
          ...(flags.session !== undefined && { session_id: flags.session }),
        }
        const list = await listOwnHandoffs(await recordDeps(context), await context.operator(), filter)
        printRows(context, flags, list.own, COLUMNS, toJson)
        printHiddenRecords(context, list, 'handoff')
      },
    )
}

function showCommand(context: CliContext): Command {
  return new Command('show')
    .description('show a handoff: what the run did, according to its receipts')
    .argument('<handoff>', 'id of the handoff')
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik handoff show handoff_01JCQ3V8Z0W4N5T6R7Y8K9M2PD\n')
    .action(async (id: string, flags: { readonly format?: string }) => {
      const { getHandoff } = await import('../run/agents/read-agent-records.ts')
      const found = await getHandoff(await recordDeps(context), id)
      await requireOwnRecord(context, await context.operator(), 'show', 'handoff', found)
      printRecord(context, flags, toJson({ id, ...found }), () => describe(found))
    })
}

/** A handoff whose record cannot be read contains only its id. */
function toJson({ id, record, seal, status }: Listed<Handoff>): Json {
  return { handoff: (record ?? { id }) as unknown as Json, receipt_hmac: seal, hmac_status: status }
}

function describe({ record: handoff, status }: Checked<Handoff>): string {
  const rows: [string, string][] = [
    ['', handoff.summary],
    ['run', `${handoff.run_id} · ${handoff.execution_mode} · ${handoff.provider_id}`],
    ...listFallbacks(handoff.provider_id, handoff.answered_by),
    ...handoff.commands_run.map((one): [string, string] => [
      '$',
      `${one.command_ref}  ${one.status}${one.exit_code === null ? '' : ` · exit ${one.exit_code}`} · ${isolationOf(one)}`,
    ]),
    ...handoff.denied_actions.map((one): [string, string] => [
      'denied',
      `${one.capability} on ${one.target} by ${one.rule}`,
    ]),
    ...handoff.risks.map((risk): [string, string] => ['risk', risk]),
    ...Object.entries(handoff.self_audit).map(([name, holds]): [string, string] => [
      holds ? '✓' : '✗',
      name.replaceAll('_', ' '),
    ]),
    ...handoff.next_steps.map((step): [string, string] => ['next', step]),
    ['seal', status],
  ]
  const shown = rows.map(([label, value]) => `  ${label.padEnd(8)} ${printable(value)}\n`)
  return `  ${handoff.id} · ${handoff.status}\n${shown.join('')}`
}

/** Formats the requested and the actual isolation. After a kill, the actual isolation is unknown. */
function isolationOf({ isolation, isolation_asked, status }: Handoff['commands_run'][number]): string {
  if (isolation !== null) {
    return isolation === isolation_asked
      ? `isolation ${isolation}`
      : `isolation ${isolation} (requested ${isolation_asked})`
  }
  return status === 'indeterminate'
    ? `isolation ${isolation_asked} requested, actual isolation unknown`
    : `isolation ${isolation_asked} requested, but nothing ran`
}
