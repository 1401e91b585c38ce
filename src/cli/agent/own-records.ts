/** Whom a command acts for, and what of the records that operator sees: their own. */
import type { Checked, OwnList } from '../../run/agents/read-agent-records.ts'
import type { OwnedRecord, RecordKind } from '../../run/agents/record-refusal.ts'
import type { CliContext } from '../context.ts'
import { printNote } from '../output.ts'

/** `agent` is for somebody who is logged in; the other nouns act as whoever acts. */
export async function actingFor(context: CliContext, noun: string): Promise<string> {
  if (noun !== 'agent') return context.operator()
  const { requireLogin } = await import('../../run/agents/operator-login.ts')
  return (await requireLogin(await context.store())).subject
}

/** Refuses another operator's record, with a receipt. */
export async function requireOwnRecord(
  context: CliContext,
  operator: string,
  operation: string,
  kind: RecordKind,
  found: Checked<OwnedRecord>,
): Promise<void> {
  const { requireOwn } = await import('../../run/agents/ownership.ts')
  await requireOwn(await context.log(), operator, operation, kind, found)
}

/** On stderr: what a program reads on stdout is the list and nothing else. */
export function printHiddenRecords(
  context: CliContext,
  { others }: OwnList<unknown>,
  noun: RecordKind,
): void {
  if (others === 0) return
  const are = others === 1 ? `1 ${noun} of another operator is` : `${others} ${noun}s of other operators are`
  printNote(context, `  ${are} not shown\n`)
}
