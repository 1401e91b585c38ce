/** Determines the operator of a command, and limits the records of the command to those of that operator. */
import type { Checked, OwnList } from '../../run/agents/read-agent-records.ts'
import type { OwnedRecord, RecordKind } from '../../run/agents/record-refusal.ts'
import type { CliContext } from '../context.ts'
import { printNote } from '../output.ts'

/** Returns the operator. The noun `agent` requires a login; the other nouns use the current operator. */
export async function resolveOperator(context: CliContext, noun: string): Promise<string> {
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

/** Prints to stderr, because programs expect only the list on stdout. */
export function printHiddenRecords(
  context: CliContext,
  { others }: OwnList<unknown>,
  noun: RecordKind,
): void {
  if (others === 0) return
  const are = others === 1 ? `1 ${noun} of another operator is` : `${others} ${noun}s of other operators are`
  printNote(context, `  ${are} not shown\n`)
}
