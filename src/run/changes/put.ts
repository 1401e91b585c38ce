/** One change after the other into the workspace on this machine, each looked at once more right before it is written. */
import { CraikError } from '../../errors.ts'
import type { StoredChange, StoredChangeSet } from './change-set.ts'
import { sha256 } from './content-store.ts'
import type { HostTree } from './host-tree.ts'
import { type ChangeVerdict, lookFor, type Planned, planChange } from './plan.ts'

export type OutcomeStatus = ChangeVerdict['status'] | 'applied' | 'failed'

export interface Applied {
  readonly change: StoredChange
  readonly status: OutcomeStatus
  readonly reason?: string
}

const MEANWHILE = 'it changed on the host meanwhile'

/** What was brought over stays when this is broken off; done again, the rest follows. */
export async function* bringOver(
  tree: HostTree,
  kept: StoredChangeSet,
  planned: readonly Planned[],
  until: AbortSignal,
): AsyncGenerator<Applied> {
  await tree.leave()
  for (const { change, verdict } of planned) {
    until.throwIfAborted()
    if (verdict.status !== 'ready') yield { change, ...verdict }
    else yield { change, ...(await bringOne(tree, kept, change)) }
  }
}

async function bringOne(
  tree: HostTree,
  kept: StoredChangeSet,
  change: StoredChange,
): Promise<Omit<Applied, 'change'>> {
  try {
    return await put(tree, kept, change)
  } catch (error) {
    // One file that may not be written does not keep the others from coming over; the answer names it.
    const { code } = error as NodeJS.ErrnoException
    if (error instanceof CraikError || code === undefined) throw error
    return { status: 'failed', reason: `cannot write it (${code})` }
  }
}

async function put(
  tree: HostTree,
  kept: StoredChangeSet,
  change: StoredChange,
): Promise<Omit<Applied, 'change'>> {
  const { path, before, after } = change
  const isStill = async () => planChange(change, await lookFor(tree, change)).status === 'ready'
  if (after === null) return answer((await isStill()) && (await tree.remove(path)))
  const temporary = temporaryName(kept.record.run_id, path)
  if (after.kind === 'link') return answer(await tree.putLink(path, after.target, { temporary, isStill }))
  if (before?.kind === 'file' && before.digest === after.digest) {
    return answer((await isStill()) && (await tree.setExecutable(path, after.executable)))
  }
  const content = kept.contents.get(after.digest)
  if (content === undefined) return { status: 'left', reason: 'its content was not saved' }
  return answer(await tree.putFile(path, content, { executable: after.executable, temporary, isStill }))
}

function answer(isThere: boolean): Omit<Applied, 'change'> {
  return isThere ? { status: 'applied' } : { status: 'conflict', reason: MEANWHILE }
}

/** The same each time, so that what a killed attempt left is replaced by the next one. */
export function temporaryName(runId: string, path: string): string {
  return `.craik-${sha256(`${runId}/${path}`).slice(0, 16)}.part`
}
