/** `agent list` and `agent status`: print sessions and whether their records are unchanged. */
import { Command, Option } from 'commander'
import type { Json } from '../../lib/canonical-json.ts'
import type { Session } from '../../run/agents/agent-session.ts'
import type { Checked, Listed } from '../../run/agents/read-agent-records.ts'
import type { CliContext } from '../context.ts'
import { type Column, formatOption, printable, printRecord, printRows } from '../output.ts'
import { recordDeps } from './open-run-deps.ts'
import { printHiddenRecords, requireOwnRecord, resolveOperator } from './own-records.ts'

const COLUMNS: readonly Column<Listed<Session>>[] = [
  { title: 'id', value: ({ id }) => id },
  {
    title: 'name',
    value: ({ id, record }) => (!record || record.display_name === id ? '–' : record.display_name),
    canShorten: true,
  },
  { title: 'status', value: ({ record }) => record?.status ?? '–' },
  { title: 'provider', value: ({ record }) => record?.provider_id ?? '–', dropOrder: 2 },
  {
    title: 'receipts',
    value: ({ record }) => (record ? String(record.receipt_count) : '–'),
    dropOrder: 1,
  },
  { title: 'seal', value: ({ status }) => status, dropOrder: 3 },
]

export function sessionListCommand(context: CliContext, noun: 'agent' | 'session'): Command {
  return new Command('list')
    .description('list your sessions, newest first')
    .addOption(new Option('--status <status>', 'only sessions with this status, such as idle or failed'))
    .addOption(formatOption())
    .addHelpText('after', `\nExample:\n  craik ${noun} list --status idle\n`)
    .action(async (flags: { readonly status?: string; readonly format?: string }) => {
      const operator = await resolveOperator(context, noun)
      const { listOwnSessions } = await import('../../run/agents/read-agent-records.ts')
      const filter = { ...(flags.status !== undefined && { status: flags.status }) }
      const list = await listOwnSessions(await recordDeps(context), operator, filter)
      printRows(context, flags, list.own, COLUMNS, sessionJson)
      printHiddenRecords(context, list, 'session')
    })
}

export function sessionShowCommand(
  context: CliContext,
  verb: 'status' | 'show',
  noun: 'agent' | 'session',
): Command {
  return new Command(verb)
    .description('show a session and whether its record is unchanged')
    .argument('<session>', 'id of the session')
    .addOption(formatOption())
    .addHelpText('after', `\nExample:\n  craik ${noun} ${verb} agent_shop_openai_20261115091244\n`)
    .action(async (id: string, flags: { readonly format?: string }) => {
      const operator = await resolveOperator(context, noun)
      const { getSession } = await import('../../run/agents/read-agent-records.ts')
      const found = await getSession(await recordDeps(context), id)
      await requireOwnRecord(context, operator, verb, 'session', found)
      printRecord(context, flags, sessionJson({ id, ...found }), () => describeSession(found))
    })
}

/** Returns `{session, hmac_status}`. A session whose record cannot be read contains only its id. */
function sessionJson({ id, record, seal, status }: Listed<Session>): Json {
  return { session: { ...(record ?? { id }), receipt_hmac: seal } as unknown as Json, hmac_status: status }
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
