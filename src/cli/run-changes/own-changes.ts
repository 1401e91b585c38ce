/** The kept changes of a run, for its own operator. */
import type { Kept } from '../../run/changes/kept.ts'
import type { CliContext } from '../context.ts'
import { printable } from '../output.ts'

/** Those of another operator are refused, with a receipt. */
export async function ownChanges(
  context: CliContext,
  runId: string,
  operation: 'diff' | 'apply',
): Promise<Kept> {
  const { readKept } = await import('../../run/changes/kept.ts')
  const { requireOwnChanges } = await import('../../run/changes/own-changes.ts')
  const kept = await readKept(context.home, runId)
  await requireOwnChanges(await context.log(), await context.operator(), operation, kept)
  return kept
}

/** What differs inside and is in no patch. */
export function leftLines({ record: { left, left_count } }: Kept): string {
  const lines = left.map(({ path, reason }) => `  left      ${printable(path)}: ${printable(reason)}\n`)
  const more = left_count - left.length
  return `${lines.join('')}${more > 0 ? `  left      ${more.toLocaleString('en')} more\n` : ''}`
}
