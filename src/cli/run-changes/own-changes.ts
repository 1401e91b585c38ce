/** The kept changes of a run, for its own operator. */
import { CraikError } from '../../errors.ts'
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
  const kept = await readKept(context.home, runId).catch(async (error: unknown) => {
    if (!(error instanceof CraikError) || error.code !== 'not_found') throw error
    throw (await notKeptYet(context, runId)) ?? error
  })
  await requireOwnChanges(await context.log(), await context.operator(), operation, kept)
  return kept
}

/** Of a prompt on a copy whose end has not come, or never will; undefined: it is none. */
async function notKeptYet(context: CliContext, runId: string): Promise<CraikError | undefined> {
  const { promptCalled, statusOf } = await import('../prompt/list.ts')
  const run = await promptCalled(context, runId)
  if (run?.workspace_mode !== 'copy') return undefined
  if (statusOf(run) === 'running')
    return new CraikError('not_found', `run ${runId} goes on, and what it changed is kept when it ends`, {
      hint: `see whether it has ended:  craik run show ${runId}`,
    })
  return new CraikError('not_found', `run ${runId} ended before what it changed was kept`, {
    hint: `it is still in its sandbox, and is kept with what follows:  craik prompt --resume ${runId} "go on"`,
  })
}

/** What differs inside and is in no patch. */
export function leftLines({ record: { left, left_count } }: Kept): string {
  const lines = left.map(({ path, reason }) => `  left      ${printable(path)}: ${printable(reason)}\n`)
  const more = left_count - left.length
  return `${lines.join('')}${more > 0 ? `  left      ${more.toLocaleString('en')} more\n` : ''}`
}
