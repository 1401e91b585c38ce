/** Finds the saved changes of a run, for its own operator. */
import { CraikError } from '../../errors.ts'
import type { StoredChangeSet } from '../../run/changes/change-set.ts'
import type { CliContext } from '../context.ts'
import { printable } from '../output.ts'

/** Refuses the changes of another operator, with a receipt. */
export async function ownChanges(
  context: CliContext,
  runId: string,
  operation: 'diff' | 'apply',
): Promise<StoredChangeSet> {
  const { readChangeSet } = await import('../../run/changes/change-set.ts')
  const { requireOwnChanges } = await import('../../run/changes/own-changes.ts')
  const changeSet = await readChangeSet(context.home, runId).catch(async (error: unknown) => {
    if (!(error instanceof CraikError) || error.code !== 'not_found') throw error
    throw (await isNotStoredYet(context, runId)) ?? error
  })
  await requireOwnChanges(await context.log(), await context.operator(), operation, changeSet)
  return changeSet
}

/**
 * Returns an error for a prompt on a copy that still runs, or that ended before its changes were saved. Returns
 * undefined for every other run.
 */
async function isNotStoredYet(context: CliContext, runId: string): Promise<CraikError | undefined> {
  const { findPrompt: promptCalled, promptStatus } = await import('../prompt/list.ts')
  const run = await promptCalled(context, runId)
  if (run?.workspace_mode !== 'copy') return undefined
  if (promptStatus(run) === 'running')
    return new CraikError('not_found', `run ${runId} is still running; its changes are saved when it ends`, {
      hint: `check whether the run has ended:  craik run show ${runId}`,
    })
  return new CraikError('not_found', `run ${runId} ended before its changes were saved`, {
    hint: `save the changes with the next prompt of the run:  craik prompt --resume ${runId} "continue"`,
  })
}

/** Formats the differences in the sandbox that no patch contains. */
export function describeRemaining({ record: { left, left_count } }: StoredChangeSet): string {
  const lines = left.map(({ path, reason }) => `  left      ${printable(path)}: ${printable(reason)}\n`)
  const more = left_count - left.length
  return `${lines.join('')}${more > 0 ? `  left      ${more.toLocaleString('en')} more\n` : ''}`
}
