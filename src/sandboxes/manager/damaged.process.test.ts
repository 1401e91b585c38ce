import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { SandboxId } from '../../lib/ids.ts'
import { ownerOf } from '../../lib/owner.ts'
import { revokeGrant } from '../../policy/grants.ts'
import {
  caller,
  eventually,
  exec,
  jobId,
  MANAGER_OPERATOR,
  type ManagerScene,
  managerScene,
  readOutput,
} from './manager.fixture.ts'
import { plainBackend } from './plain-instance.fixture.ts'

function damage({ store }: ManagerScene, id: SandboxId): void {
  store.database
    .prepare(
      `UPDATE sandboxes SET document = json_set(document, '$.operator', 'local-user:eve') WHERE id = ?`,
    )
    .run(id)
}

/** A zombie process has a process id but does not run. It waits for this process, its parent. */
function isAlive(pid: number): boolean {
  return ownerOf(pid) !== undefined
}

describe('a sandbox whose record was changed outside Craik', () => {
  it('is listed as damaged with only its id and name, and its record is not used', async () => {
    await using scene = managerScene()
    const id = await scene.create({ name: 'box' })
    damage(scene, id)
    const notice = `the record of sandbox ${id} was changed outside Craik`
    expect(await scene.manager.list()).toEqual([{ id, name: 'box', state: 'damaged', notice }])
    await expect(scene.manager.get('box')).rejects.toMatchObject({
      code: 'tampered',
      hint: expect.stringContaining(`craik sandbox delete ${id}`),
    })
  })

  it.each(['held', 'not held'])(
    'is deleted by its id when it is %s: nothing of it keeps running or stays, and every receipt has an end',
    async (how) => {
      await using scene = managerScene()
      const id = await scene.create()
      const pid = scene.backend.pids.get(id)!
      const other = await scene.create()
      const { output } = await scene.manager.jobs.start(caller(), id, jobId(), { spec: exec('sleep', '60') })
      output.destroy()
      damage(scene, id)
      if (how === 'not held') {
        await scene.restart()
        expect(isAlive(pid)).toBe(true)
      }
      await scene.manager.delete(caller(), id)
      // An ended process keeps its id until its parent reads its exit code.
      await eventually(async () => (isAlive(pid) ? undefined : true))
      expect(existsSync(join(scene.folder, 'sandboxes', id))).toBe(false)
      expect((await scene.manager.list()).map((left) => left.id)).toEqual([other])
      const [end] = await scene.receipts({ operation: 'delete', phase: 'end' })
      expect(end).toMatchObject({ status: 'passed', metadata: { damaged: true } })
      const [job] = await scene.receipts({ operation: 'exec', phase: 'end' })
      expect(job).toMatchObject({ status: 'indeterminate', links: { sandbox_id: id } })
      expect(await scene.store.tables.openReceipts.list()).toEqual([])
      expect(await scene.store.tables.boundaryEpochs.open(id)).toEqual([])
      for (const { document, revokedAtMs } of await scene.store.tables.grants.list(100))
        if (document.includes(`sandbox/${id}`)) expect(revokedAtMs).not.toBeNull()
      // The other sandbox is unchanged.
      const ran = await scene.manager.jobs.start(caller(), other, jobId(), { spec: exec('echo', 'here') })
      expect((await readOutput(ran.output)).stdout).toBe('here\n')
    },
  )

  it('is deleted with the files that its backend stores outside its folder', async () => {
    const plain = plainBackend()
    const discarded: string[] = []
    await using scene = managerScene({
      ...plain,
      async discard({ id, folder }) {
        // Called only when nothing runs in the sandbox, and while its folder still exists.
        expect([isAlive(plain.pids.get(id)!), existsSync(folder)]).toEqual([false, true])
        discarded.push(id)
      },
    })
    const id = await scene.create()
    damage(scene, id)
    await scene.restart()
    await scene.manager.delete(caller(), id)
    expect(new Set(discarded)).toEqual(new Set([id]))
  })

  it('is not deleted without a grant for its id', async () => {
    await using scene = managerScene()
    const id = await scene.create()
    damage(scene, id)
    await expect(scene.manager.delete(caller('local-user:eve'), id)).rejects.toMatchObject({ code: 'denied' })
    expect(existsSync(join(scene.folder, 'sandboxes', id))).toBe(true)
    for (const grant of await scene.store.tables.grants.list(100))
      if (grant.capability === 'sandbox.delete') await revokeGrant(scene.store, grant.id, MANAGER_OPERATOR)
    await expect(scene.manager.delete(caller(), id)).rejects.toMatchObject({ code: 'denied' })
    expect(await scene.receipts({ kind: 'denial', operation: 'delete' })).toHaveLength(2)
  })

  it.each([
    `owner = 'not json'`,
    `owner = '7'`,
    `seal = '0123456789abcdef:' || substr(seal, 18)`,
    `document = '{}'`,
  ])('is recovered although one of its jobs has %s, and shows a notice', async (edit) => {
    await using scene = managerScene()
    const id = await scene.create()
    const [edited, sound] = [jobId(), jobId()]
    for (const job of [edited, sound]) {
      const { output } = await scene.manager.jobs.start(caller(), id, job, { spec: exec('sleep', '60') })
      output.destroy()
    }
    await scene.manager.close()
    scene.store.database.prepare(`UPDATE sandbox_jobs SET ${edit} WHERE job_id = ?`).run(edited)
    await scene.restart()
    const view = await scene.manager.get(id)
    expect(view).toMatchObject({ state: 'running', runningJobs: 1 })
    expect(view.notice).toBe(
      'the records of 1 of its jobs were changed outside Craik; Craik does not modify them',
    )
    expect(scene.complaints).toContain(view.notice)
    expect(await scene.manager.jobs.status(caller(), id, sound)).toMatchObject({ state: 'running' })
    await scene.manager.delete(caller(), id)
    expect(await scene.manager.list()).toEqual([])
  })
})
