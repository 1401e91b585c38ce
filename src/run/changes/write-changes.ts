/** Applies the changes to the workspace on the host one by one, and checks each again right before it writes. */
import { CraikError } from '../../errors.ts'
import type { StoredChange, StoredChangeSet } from './change-set.ts'
import { sha256 } from './content-store.ts'
import type { HostTree } from './host-tree.ts'
import { type ChangeVerdict, type Planned, planChange, viewPath } from './plan-changes.ts'

export type OutcomeStatus = ChangeVerdict['status'] | 'applied' | 'failed'

export interface Applied {
  readonly change: StoredChange
  readonly status: OutcomeStatus
  readonly reason?: string
}

const MEANWHILE = 'it changed on the host meanwhile'

/** Yields each result. After an interruption the applied changes stay, and a new call applies the rest. */
export async function* applyChange(
  tree: HostTree,
  changeSet: StoredChangeSet,
  planned: readonly Planned[],
  until: AbortSignal,
): AsyncGenerator<Applied> {
  await tree.close()
  for (const { change, verdict } of planned) {
    until.throwIfAborted()
    if (verdict.status !== 'ready') yield { change, ...verdict }
    else yield { change, ...(await writeChange(tree, changeSet, change)) }
  }
}

async function writeChange(
  tree: HostTree,
  changeSet: StoredChangeSet,
  change: StoredChange,
): Promise<Omit<Applied, 'change'>> {
  try {
    return await put(tree, changeSet, change)
  } catch (error) {
    // A file that cannot be written does not stop the others. The result names it.
    const { code } = error as NodeJS.ErrnoException
    if (error instanceof CraikError || code === undefined) throw error
    return { status: 'failed', reason: `cannot write it (${code})` }
  }
}

async function put(
  tree: HostTree,
  changeSet: StoredChangeSet,
  change: StoredChange,
): Promise<Omit<Applied, 'change'>> {
  const { path, before, after } = change
  const isStill = async () => planChange(change, await viewPath(tree, change)).status === 'ready'
  if (after === null) return answer((await isStill()) && (await tree.remove(path)))
  const temporary = temporaryName(changeSet.record.run_id, path)
  if (after.kind === 'link') return answer(await tree.putLink(path, after.target, { temporary, isStill }))
  if (before?.kind === 'file' && before.digest === after.digest) {
    return answer((await isStill()) && (await tree.setExecutable(path, after.executable)))
  }
  const content = changeSet.contents.get(after.digest)
  if (content === undefined) return { status: 'left', reason: 'its content was not saved' }
  return answer(await tree.putFile(path, content, { executable: after.executable, temporary, isStill }))
}

function answer(isThere: boolean): Omit<Applied, 'change'> {
  return isThere ? { status: 'applied' } : { status: 'conflict', reason: MEANWHILE }
}

/** The same name each time, so that the next attempt replaces the file of a killed one. */
export function temporaryName(runId: string, path: string): string {
  return `.craik-${sha256(`${runId}/${path}`).slice(0, 16)}.part`
}
