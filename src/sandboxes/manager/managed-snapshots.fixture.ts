/** Actions of snapshot tests with a manager: run a script in a sandbox, allow an import, list the files. */
import { existsSync, readdirSync } from 'node:fs'
import type { SandboxId } from '../../lib/ids.ts'
import { createGrant } from '../../policy/grants.ts'
import { caller, exec, jobId, MANAGER_OPERATOR, type ManagerScene, readOutput } from './manager.fixture.ts'

export async function inside(
  { manager }: Pick<ManagerScene, 'manager'>,
  id: SandboxId,
  script: string,
): Promise<string> {
  const { output } = await manager.jobs.start(caller(), id, jobId(), { spec: exec('sh', '-c', script) })
  const { stdout, stderr, result } = await readOutput(output)
  if (result?.exitCode !== 0) throw new Error(stderr)
  return stdout
}

export async function allowImport({ store }: ManagerScene): Promise<void> {
  await createGrant(store, {
    capability: 'sandbox.snapshot',
    subject: MANAGER_OPERATOR,
    scope: 'any',
    operations: ['import'],
    target: { ref: 'snapshot/new' },
    max_uses: 1,
    approved_by: MANAGER_OPERATOR,
    reason: 'typed by the operator',
  })
}

export const snapshotFiles = ({ store }: ManagerScene) =>
  existsSync(store.home.snapshots) ? readdirSync(store.home.snapshots) : []

/** Returns a copy in which one bit of the byte at `at` is different. */
export function flipByte(bytes: Buffer, at: number): Buffer {
  const changed = Buffer.from(bytes)
  changed[at]! ^= 0x10
  return changed
}
