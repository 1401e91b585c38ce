/** `agent list` and `agent status`: looking at sessions, and at whether they are as Craik left them. */
import { Command, Option } from 'commander'
import type { Json } from '../../lib/canonical-json.ts'
import type { Checked } from '../../run/agents/records.ts'
import type { Session } from '../../run/agents/session.ts'
import type { CliContext } from '../context.ts'
import { type Column, formatOption, printable, printRecord, printRows } from '../output.ts'
import { recordPlace } from './place.ts'

const COLUMNS: readonly Column<Checked<Session>>[] = [
  { title: 'id', value: ({ record }) => record.id },
  { title: 'name', value: ({ record }) => (record.display_name === record.id ? '–' : record.display_name) },
  { title: 'status', value: ({ record }) => record.status },
  { title: 'provider', value: ({ record }) => record.provider_id },
  { title: 'operator', value: ({ record }) => record.operator_subject },
  { title: 'receipts', value: ({ record }) => String(record.receipt_count) },
  { title: 'seal', value: ({ status }) => status },
]

export function sessionListCommand(context: CliContext, example: string): Command {
  return new Command('list')
    .description('sessions, newest first')
    .addOption(new Option('--status <status>', 'only those'))
    .option('--operator <subject>', 'only this operator’s')
    .addOption(formatOption())
    .addHelpText('after', `\nExample:\n  ${example}\n`)
    .action(
      async (flags: { readonly status?: string; readonly operator?: string; readonly format?: string }) => {
        const { listSessions } = await import('../../run/agents/records.ts')
        const filter = {
          ...(flags.status !== undefined && { status: flags.status }),
          ...(flags.operator !== undefined && { operator_subject: flags.operator }),
        }
        printRows(
          context,
          flags,
          await listSessions(await recordPlace(context), filter),
          COLUMNS,
          sessionJson,
        )
      },
    )
}

export function sessionShowCommand(context: CliContext, verb: 'status' | 'show', noun: string): Command {
  return new Command(verb)
    .description('one session, and whether it is as Craik left it')
    .argument('<session>')
    .addOption(formatOption())
    .addHelpText('after', `\nExample:\n  craik ${noun} ${verb} agent_craik_fixture_local_20261115091244\n`)
    .action(async (id: string, flags: { readonly format?: string }) => {
      const { getSession } = await import('../../run/agents/records.ts')
      const found = await getSession(await recordPlace(context), id)
      printRecord(context, flags, sessionJson(found), () => describeSession(found))
    })
}

/** `{session, hmac_status}` */
function sessionJson({ record, seal, status }: Checked<Session>): Json {
  return { session: { ...record, receipt_hmac: seal } as unknown as Json, hmac_status: status }
}

function describeSession({ record: session, status }: Checked<Session>): string {
  const rows: [string, string | null][] = [
    ['name', session.display_name === session.id ? null : session.display_name],
    ['operator', session.operator_subject],
    ['provider', `${session.provider_id}${session.transport === 'fixture' ? ' (fixture)' : ''}`],
    ['model', session.model_id],
    ['policy', session.policy_envelope_id],
    ['isolation', session.isolation],
    ['workspace', session.workspace],
    ['running', session.active_run_id],
    ['since', session.created_at],
    ['handoff', session.handoff_ids.at(-1) ?? null],
    ['receipts', `${session.receipt_count}   craik receipts list --session ${session.id}`],
    ['seal', status],
  ]
  const shown = rows.map(([label, value]) =>
    value === null ? '' : `  ${label.padEnd(10)} ${printable(value)}\n`,
  )
  const check = `  check it:  craik agent audit ${session.id}\n`
  return `  ${session.id} · ${session.status}\n${shown.join('')}${check}`
}
