/** Parses the filters that `list` and `tail` share. */
import { type Command, Option } from 'commander'
import { parseTime } from '../../lib/duration.ts'
import { parseReference } from '../../lib/ids.ts'
import { RECEIPT_KINDS, RECEIPT_STATUSES } from '../../receipts/kinds.ts'
import type { ReceiptFilter } from '../../store/store.ts'

const IDS = {
  session: 'sessionId',
  task: 'taskId',
  run: 'runId',
  handoff: 'handoffId',
  policy: 'policyEnvelopeId',
} as const

const NAMES: Readonly<Record<string, string>> = { policy: 'policy envelope' }

type FilterFlags = Partial<Record<keyof typeof IDS | 'kind' | 'status' | 'since' | 'until', string>>

export function addFilters(command: Command): Command {
  for (const name of Object.keys(IDS))
    command.option(`--${name} <id>`, `only receipts of this ${NAMES[name] ?? name}`)
  return command
    .addOption(new Option('--kind <kind>', 'only receipts of this kind').choices(RECEIPT_KINDS))
    .addOption(new Option('--status <status>', 'only receipts with this status').choices(RECEIPT_STATUSES))
    .option('--since <time>', 'only receipts since a time or an age: 2026-11-15T09:00:00Z, 2h')
    .option('--until <time>', 'only receipts before a time or an age')
}

export function parseFilter(flags: FilterFlags, nowMs: number): ReceiptFilter {
  const ids = Object.entries(IDS)
    .filter(([flag]) => flags[flag as keyof typeof IDS] !== undefined)
    .map(([flag, field]) => [field, parseReference(flags[flag as keyof typeof IDS]!, `--${flag}`)] as const)
  return {
    ...Object.fromEntries(ids),
    ...(flags.kind !== undefined && { kind: flags.kind }),
    ...(flags.status !== undefined && { status: flags.status }),
    ...(flags.since !== undefined && { sinceMs: parseTime(flags.since, nowMs, '--since') }),
    ...(flags.until !== undefined && { untilMs: parseTime(flags.until, nowMs, '--until') }),
  }
}
