/**
 * Finds what a prompt changes in its copy of a folder: compares before and after, and stores the changes so that the
 * user can apply them.
 */
import { realpath } from 'node:fs/promises'
import type { StoredChangeSet } from '../../run/changes/change-set.ts'
import type { PromptRun } from '../../run/prompts/prompt-record.ts'
import type { ApiClient } from '../../sdk/client.ts'
import type { CliContext } from '../context.ts'

export interface PromptChanges {
  before(run: PromptRun): Promise<void>
  /** Returns undefined if there is no host folder to compare with. */
  after(run: PromptRun): Promise<StoredChangeSet | undefined>
}

/** The time limit for reading the changes. A cancelled prompt may have changed files too. */
const READ_CHANGES_TIMEOUT_MS = 5 * 60_000

export function promptChanges(
  context: CliContext,
  client: ApiClient,
  resumes: PromptRun | undefined,
): PromptChanges {
  const isCopy = ({ workspace, workspace_mode }: PromptRun) => workspace !== null && workspace_mode === 'copy'
  const parts = async (run: PromptRun) => {
    const [{ takeManifest }, { keepBaseline, readBaseline }, { createWorkspaceRunner }] = await Promise.all([
      import('../../run/changes/file-manifest.ts'),
      import('../../run/changes/change-set.ts'),
      import('../run-changes/workspace-programs.ts'),
    ])
    return { takeManifest, keepBaseline, readBaseline, inside: createWorkspaceRunner(client, run.sandbox_id) }
  }
  return {
    async before(run) {
      if (!isCopy(run)) return
      const { takeManifest, keepBaseline, readBaseline, inside } = await parts(run)
      // Changes of earlier runs that the user has not applied belong to this change set too.
      const now = await takeManifest(inside, context.signal)
      const first = resumes && (await readBaseline(context.home, resumes.id))
      if (first === undefined) return keepBaseline(context.home, run.id, now)
      const { withBroughtOver } = await import('../../run/changes/earlier-changes.ts')
      const folder = await realpath(run.workspace!)
      keepBaseline(context.home, run.id, await withBroughtOver(folder, first, now, context.signal))
    },
    async after(run) {
      if (!isCopy(run)) return undefined
      const { takeManifest, readBaseline, inside } = await parts(run)
      const [{ changesBetween }, { storeChangeSet }] = await Promise.all([
        import('../../run/changes/file-changes.ts'),
        import('../../run/changes/store-change-set.ts'),
      ])
      const before = await readBaseline(context.home, run.id)
      if (before === undefined) return undefined
      const until = AbortSignal.any([AbortSignal.timeout(READ_CHANGES_TIMEOUT_MS), context.kill])
      const changes = changesBetween(before, await takeManifest(inside, until))
      return storeChangeSet(
        {
          home: context.home,
          runId: run.id,
          sandboxId: run.sandbox_id,
          operator: run.operator_subject,
          workspace: await realpath(run.workspace!),
          nowMs: context.clock.nowMs(),
        },
        inside,
        changes,
        until,
      )
    },
  }
}
