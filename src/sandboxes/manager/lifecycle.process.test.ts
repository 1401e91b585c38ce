import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { describe, expect, it } from 'vitest'
import { newId, type SandboxId } from '../../lib/ids.ts'
import { currentOwner, type Owner, ownerOf } from '../../lib/owner.ts'
import { listGrants } from '../../policy/grants.ts'
import { beginCreate, beginDelete, beginOperation, changeSandbox } from '../lifecycle/tokens.ts'
import {
  allowCreate,
  caller,
  eventually,
  exec,
  jobId,
  MANAGER_OPERATOR,
  managerScene,
  readOutput,
  SANDBOX_REQUEST,
} from './manager.fixture.ts'
import { plainBackend } from './plain-instance.fixture.ts'

describe('creating a sandbox', () => {
  it('returns one that is connected, and that can be found by id and by name', async () => {
    await using scene = managerScene()
    await allowCreate(scene.store)
    const view = await scene.manager.create(caller(), { ...SANDBOX_REQUEST, name: 'workbench' })
    expect(view).toMatchObject({
      name: 'workbench',
      state: 'running',
      isolation: 'none',
      connected: true,
      runningJobs: 0,
      limits: { memoryBytes: 2 * 1024 ** 3, processes: 512 },
      enforced: { memory: 'not-enforced' },
      notice: null,
    })
    expect(await scene.manager.get('workbench')).toEqual(view)
    expect(await scene.manager.get(view.id)).toEqual(view)
    expect(scene.manager.busy).toBe(true)
    await expect(scene.manager.get('nothing')).rejects.toMatchObject({ code: 'not_found' })
    const end = await scene.receipts({ operation: 'create', phase: 'end' })
    expect(end).toMatchObject([{ status: 'passed', links: { sandbox_id: view.id } }])
  })

  it('is undone completely when the instance ends before it is ready', async () => {
    await using scene = managerScene(plainBackend({ program: ['/bin/false'] }))
    await allowCreate(scene.store)
    await expect(scene.manager.create(caller(), SANDBOX_REQUEST)).rejects.toMatchObject({
      code: 'boundary_failed',
      message: expect.stringContaining('ended before it was ready'),
    })
    await nothingLeft(scene)
  })

  it('is undone completely when the instance cannot be started', async () => {
    await using scene = managerScene(plainBackend({ program: ['/no/such/program'] }))
    await allowCreate(scene.store)
    await expect(scene.manager.create(caller(), SANDBOX_REQUEST)).rejects.toThrow()
    await nothingLeft(scene)
  })

  it('is undone completely when the caller aborts', async () => {
    await using scene = managerScene(plainBackend({ program: ['/bin/sleep', '60'] }))
    await allowCreate(scene.store)
    const controller = new AbortController()
    const creating = scene.manager.create(caller(MANAGER_OPERATOR, controller.signal), SANDBOX_REQUEST)
    await eventually(async () => (await scene.manager.list())[0])
    controller.abort()
    await expect(creating).rejects.toThrow()
    await nothingLeft(scene)
  })

  async function nothingLeft(scene: ReturnType<typeof managerScene>): Promise<void> {
    expect(await scene.manager.list()).toEqual([])
    expect(readdirSync(join(scene.folder, 'sandboxes'))).toEqual([])
    expect(await scene.receipts({ operation: 'create', phase: 'end' })).toMatchObject([{ status: 'failed' }])
    expect(scene.manager.busy).toBe(false)
    expect(scene.complaints).toEqual([])
  }
})

describe('deleting a sandbox', () => {
  it('ends its processes, removes the folder without following links in it, and revokes the grants', async () => {
    await using scene = managerScene()
    const id = await scene.create()
    const outside = join(scene.folder, 'outside')
    mkdirSync(outside)
    writeFileSync(join(outside, 'precious'), 'kept')
    const workspace = join(scene.folder, 'sandboxes', id, 'data', 'home', 'project')
    symlinkSync(outside, join(workspace, 'link'))
    mkdirSync(join(workspace, 'closed', 'inner'), { recursive: true })
    chmodSync(join(workspace, 'closed'), 0)
    const deep = 'mkdir -p d; cd d; for i in $(seq 60); do mkdir -p $(printf x%.0s $(seq 200)); cd x*; done'
    await readOutput(
      (await scene.manager.jobs.start(caller(), id, jobId(), { spec: exec('sh', '-c', deep) })).output,
    )
    const running = await scene.manager.jobs.start(caller(), id, jobId(), { spec: exec('sleep', '60') })
    const reading = readOutput(running.output)
    await Promise.all([scene.manager.delete(caller(), id), expect(reading).rejects.toThrow()])
    expect(existsSync(join(scene.folder, 'sandboxes', id))).toBe(false)
    expect(existsSync(join(outside, 'precious'))).toBe(true)
    expect(existsSync(`/proc/${scene.backend.pids.get(id)}`)).toBe(false)
    await expect(scene.manager.get(id)).rejects.toMatchObject({ code: 'not_found' })
    const grants = await listGrants(scene.store, Date.now())
    expect(grants.filter(({ state }) => state === 'usable')).toEqual([])
    expect(await scene.receipts({ operation: 'delete', phase: 'end' })).toMatchObject([{ status: 'passed' }])
    const [counts] = await scene.receipts({ capability: 'sandbox.boundary' })
    expect(counts).toMatchObject({ metadata: { complete: true } })
    expect(await scene.store.tables.openReceipts.list()).toEqual([])
    expect(scene.complaints).toEqual([])
  })

  it('happens once when it is requested twice at the same time', async () => {
    await using scene = managerScene()
    const id = await scene.create()
    const both = await Promise.allSettled([
      scene.manager.delete(caller(), id),
      scene.manager.delete(caller(), id),
    ])
    expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
  })
})

describe('recovering sandboxes', () => {
  it('finishes or undoes what a dead process left, and does not touch what a living one is creating', async () => {
    await using scene = managerScene()
    const dead = deadOwner()
    const begin = async (owner: Owner) => {
      await allowCreate(scene.store)
      const id = newId<SandboxId>('sbx', Date.now())
      const answer = await scene.store.write(beginCreate, {
        ...SANDBOX_REQUEST,
        id,
        operator: MANAGER_OPERATOR,
        limits: { memoryBytes: 1, processes: 1 },
        hostUser: undefined,
        owner,
      })
      expect(answer.effect).toBe('allowed')
      mkdirSync(join(scene.folder, 'sandboxes', id, 'data'), { recursive: true, mode: 0o700 })
      return id
    }
    const [left, held] = [await begin(dead), await begin(initOwner())]
    const going = await scene.create()
    await scene.store.write(beginDelete, { id: going, operator: MANAGER_OPERATOR, owner: dead })
    await scene.restart()
    expect((await scene.manager.list()).map(({ id, state }) => [id, state])).toEqual([[held, 'creating']])
    expect(readdirSync(join(scene.folder, 'sandboxes'))).toEqual([held])
    expect(await scene.receipts({ operation: 'create', phase: 'end' })).toMatchObject([
      { status: 'passed', links: { sandbox_id: going } },
      { status: 'indeterminate', links: { sandbox_id: left } },
    ])
    expect(await scene.receipts({ operation: 'delete', phase: 'end' })).toMatchObject([{ status: 'passed' }])
  })

  it('marks a sandbox as lost that ended meanwhile, and closes its jobs', async () => {
    await using scene = managerScene()
    const id = await scene.create()
    const { output } = await scene.manager.jobs.start(caller(), id, jobId(), { spec: exec('sleep', '60') })
    output.destroy()
    await scene.manager.close()
    process.kill(scene.backend.pids.get(id)!, 'SIGKILL')
    await eventually(async () => ownerOf(scene.backend.pids.get(id)!) === undefined || undefined)
    await scene.restart()
    expect(await scene.manager.get(id)).toMatchObject({ state: 'lost', connected: false })
    expect(await scene.receipts({ operation: 'exec', phase: 'end' })).toMatchObject([
      { status: 'indeterminate' },
    ])
    expect(scene.manager.busy).toBe(false)
  })

  it.each([
    ['a living process', initOwner()],
    ['a process with the same pid in another container', { ...currentOwner(), pidNamespace: 'pid:[1]' }],
  ])('does not take over a running sandbox whose jobs belong to %s', async (_, owner) => {
    await using scene = managerScene()
    const id = await scene.create()
    await scene.manager.close()
    await scene.store.write(beginOperation, {
      id,
      operation: 'exec',
      operator: MANAGER_OPERATOR,
      epoch: 'epoch_other',
      owner,
      job: { id: jobId(), spec: { kind: 'exec', argv: ['true'] }, argv: ['true'] },
    })
    await scene.restart()
    expect(scene.manager.busy).toBe(false)
    expect(await scene.manager.get(id)).toMatchObject({ state: 'running', connected: false })
    expect(await scene.receipts({ operation: 'exec', phase: 'end' })).toEqual([])
    expect(await scene.store.tables.sandboxJobs.open(id)).toMatchObject([{ owner, adopted: false }])
    // After this, the scene can take the sandbox over and remove it.
    scene.store.database.prepare('UPDATE sandbox_jobs SET owner = ?').run(JSON.stringify(deadOwner()))
    await scene.restart()
    expect(scene.manager.busy).toBe(true)
  })

  it('closes the open jobs of a lost sandbox', async () => {
    await using scene = managerScene()
    const id = await scene.create()
    const { output } = await scene.manager.jobs.start(caller(), id, jobId(), { spec: exec('sleep', '60') })
    output.destroy()
    await scene.manager.close()
    const { database } = scene.store
    // Nothing changes the job while its seal is invalid.
    database.exec(`UPDATE sandbox_jobs SET seal = 'x' || seal`)
    await scene.store.write(changeSandbox, { id, state: 'lost', notice: 'gone' })
    expect(await scene.receipts({ operation: 'exec', phase: 'end' })).toEqual([])
    database.exec('UPDATE sandbox_jobs SET seal = substr(seal, 2)')
    await scene.restart()
    expect(await scene.receipts({ operation: 'exec', phase: 'end' })).toMatchObject([
      { status: 'indeterminate' },
    ])
  })

  it('does not act on a record that was edited in the database', async () => {
    await using scene = managerScene()
    const id = await scene.create()
    await scene.manager.close()
    scene.store.database.exec(
      `UPDATE sandboxes SET document = replace(document, '"state":"running"', '"state":"deleting"')`,
    )
    await scene.restart()
    expect(existsSync(join(scene.folder, 'sandboxes', id))).toBe(true)
    expect(existsSync(`/proc/${scene.backend.pids.get(id)}`)).toBe(true)
    expect(scene.complaints.join()).toContain('changed outside Craik')
  })
})

describe('an active sandbox', () => {
  it('reports its events, including those from before a restart, and follows new ones', async () => {
    await using scene = managerScene()
    const id = await scene.create()
    await scene.restart()
    const controller = new AbortController()
    const seen: string[] = []
    for await (const { type } of scene.manager.events(id, true, controller.signal)) {
      seen.push(type)
      if (type === 'recovered') {
        const { output } = await scene.manager.jobs.start(caller(), id, jobId(), { spec: exec('true') })
        await readOutput(output)
      }
      if (type === 'job_ended') controller.abort()
    }
    expect(seen.filter((type) => !type.endsWith('connected'))).toEqual([
      'created',
      'recovered',
      'job_started',
      'job_ended',
    ])
  })

  it('refuses a second connection to the host’s socket', async () => {
    await using scene = managerScene()
    const id = await scene.create()
    const second = connect(join(scene.folder, 'sandboxes', id, 'socket', 'host.sock'))
    expect(await text(second)).toContain('already connected')
    const until = new AbortController().signal
    const types: string[] = []
    for await (const { type } of scene.manager.events(id, false, until)) types.push(type)
    expect(types).toContain('refused')
    expect((await scene.manager.get(id)).connected).toBe(true)
  })
})

function deadOwner(): Owner {
  const { stdout } = spawnSync('sh', ['-c', 'echo $$; cut -d" " -f22 /proc/self/stat'], { encoding: 'utf8' })
  const [pid, startedAt] = stdout.split('\n')
  return { ...currentOwner(), pid: Number(pid), startedAt: startedAt! }
}

/** Returns an owner that is alive and is not this process. */
function initOwner(): Owner {
  const { stdout } = spawnSync('cut', ['-d', ' ', '-f22', '/proc/1/stat'], { encoding: 'utf8' })
  return { ...currentOwner(), pid: 1, startedAt: stdout.trim() }
}
