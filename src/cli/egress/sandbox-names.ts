/** Reads the names of sandboxes for tables, because an id would take the space of all other columns. */
import { listSandboxes } from '../../sandboxes/lifecycle/read-records.ts'
import type { CliContext } from '../context.ts'

export async function readSandboxNames({
  store,
  home,
}: Pick<CliContext, 'store' | 'home'>): Promise<ReadonlyMap<string, string>> {
  const listed = await listSandboxes({ store: await store(), home })
  return new Map(listed.map(({ id, record }) => [id, record?.name ?? id]))
}
