/** An ordinary user applies the changes of a run in a container in the same way as those of a process sandbox. */
import { execFileSync } from 'node:child_process'
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { createWorkspaceRunner } from '../../src/cli/run-changes/workspace-programs.ts'
import { newId } from '../../src/lib/ids.ts'
import { changesBetween } from '../../src/run/changes/file-changes.ts'
import { takeManifest } from '../../src/run/changes/file-manifest.ts'
import { storeChangeSet } from '../../src/run/changes/store-change-set.ts'
import { homeAt } from '../../src/store/home.ts'
import { ENGINE_IS_NEEDED } from '../engine-here.ts'
import { SandboxHome } from '../sandbox-home.ts'

describe.skipIf(ENGINE_IS_NEEDED !== undefined)(ENGINE_IS_NEEDED ?? 'changes in a container', () => {
  it('are those of the copy alone, and are applied with the permissions of the user', async () => {
    await using home = await SandboxHome.open({ identity: 'user', backend: 'docker' })
    const { subject } = await home.json<{ subject: string }>(['whoami', '--format', 'json'])
    const workspace = home.workspace('project', { 'src/a.txt': 'one\n', 'run.sh': 'x\n' })
    const sandbox = await home.create(['--workspace', workspace])
    const inside = createWorkspaceRunner(home.client(), sandbox.id)
    const until = AbortSignal.timeout(60_000)
    const before = await takeManifest(inside, until)
    expect([...before.entries.keys()].sort()).toEqual(['run.sh', 'src/a.txt'])
    await sandbox.exec(['sh', '-c', 'echo two >> src/a.txt; chmod +x run.sh; mkdir d; echo new > d/b'])
    const changes = changesBetween(before, await takeManifest(inside, until))
    const runId = newId<string>('run', Date.now())
    const input = { home: homeAt(home.home), runId, sandboxId: sandbox.id, operator: subject, nowMs: 0 }
    await storeChangeSet({ ...input, workspace }, inside, changes, until)
    // The test, which may be root, stored the change set. The user's command must be able to read it.
    execFileSync('chown', ['-R', `${home.uid}:${home.uid}`, join(home.home, 'runs')])

    const { counts } = await home.json<{ counts: object }>(['run', 'apply', runId])
    expect(counts).toMatchObject({ applied: 3, conflict: 0, failed: 0 })
    expect(readFileSync(join(workspace, 'src/a.txt'), 'utf8')).toBe('one\ntwo\n')
    expect(statSync(join(workspace, 'run.sh')).mode & 0o100).toBe(0o100)
    expect(statSync(join(workspace, 'd/b')).uid).toBe(home.uid)
  })
})
