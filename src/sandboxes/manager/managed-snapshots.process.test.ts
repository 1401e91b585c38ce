import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { describe, expect, it } from 'vitest'
import type { SandboxBackend } from '../backend.ts'
import { allowImport, flipByte, inside, snapshotFiles } from './managed-snapshots.fixture.ts'
import {
  allowCreate,
  caller,
  exec,
  jobId,
  MANAGER_OPERATOR,
  type ManagerScene,
  managerScene,
} from './manager.fixture.ts'
import { plainBackend } from './plain-instance.fixture.ts'

const archiveOf = ({ store }: ManagerScene, id: string) => join(store.home.snapshots, id, 'disk.tar.zst')

describe('a snapshot', () => {
  it('restores the earlier disk, ends running jobs, and starts the sandbox again', async () => {
    await using scene = managerScene()
    const { manager } = scene
    const id = await scene.create()
    await inside(scene, id, 'echo one > a; mkdir d; ln -s /etc/passwd d/link; chmod 640 a')
    const snapshot = await manager.snapshot(caller(), id, { name: 'before' })
    expect(snapshot).toMatchObject({ name: 'before', content: { files: 1, still: true, changed: 0 } })
    expect(await manager.get(id)).toMatchObject({ state: 'running' })
    await inside(scene, id, 'echo two > a; rm -r d; echo more > b')
    const job = jobId()
    const { output } = await manager.jobs.start(caller(), id, job, { spec: exec('sleep', '1000') })
    output.destroy()
    expect(await manager.restore(caller(), id, 'before')).toMatchObject({ state: 'running', runningJobs: 0 })
    expect(await inside(scene, id, 'cat a; ls; readlink d/link; stat -c %a a')).toBe(
      'one\na\nd\n/etc/passwd\n640\n',
    )
    const [ended] = await scene.receipts({ phase: 'end', operation: 'exec', status: 'failed' })
    expect(ended?.metadata).toMatchObject({ outcome: 'stopped' })
    for (const operation of ['snapshot', 'use', 'restore'])
      expect(await scene.receipts({ phase: 'end', operation, status: 'passed' })).toHaveLength(1)
    expect(
      readdirSync(join(scene.folder, 'sandboxes', id)).filter((name) => /next|before/.test(name)),
    ).toEqual([])
  })

  it('can be taken of a stopped sandbox, which stays stopped, also after a restore', async () => {
    await using scene = managerScene()
    const { manager } = scene
    const id = await scene.create()
    await inside(scene, id, 'echo one > a')
    await manager.stop(caller(), id)
    await manager.snapshot(caller(), id, { name: 'before' })
    expect(await manager.restore(caller(), id, 'before')).toMatchObject({ state: 'stopped' })
    await manager.resume(caller(), id)
    expect(await inside(scene, id, 'cat a')).toBe('one\n')
  })

  it('can be restored and imported whatever files the sandbox created, and reports what it left out', async () => {
    await using scene = managerScene()
    const { manager } = scene
    const id = await scene.create()
    const nested =
      'i=0; while [ $i -lt 300 ]; do mkdir dddddddddddddddddddd; cd -P dddddddddddddddddddd; i=$((i+1)); done'
    await inside(scene, id, `echo one > a; mkfifo pipe; mkdir deep; cd deep; ${nested}`)
    const snapshot = await manager.snapshot(caller(), id, { name: 'before' })
    expect(snapshot.content).toMatchObject({
      skipped: 2,
      skipped_for: [
        { reason: 'fifo', count: 1 },
        { reason: 'name is too long', count: 1 },
      ],
    })
    await inside(scene, id, 'echo two > a')
    await manager.restore(caller(), id, 'before')
    expect(await inside(scene, id, 'cat a; ls')).toBe('one\na\ndeep\n')
    const opened = await manager.snapshots.open(caller(), 'before')
    const exported = await buffer(opened.body)
    await allowImport(scene)
    await manager.snapshots.import(caller(), Readable.from([exported]), { name: 'again' })
    await manager.restore(caller(), id, 'again')
  })

  it('contains no logins', async () => {
    await using scene = managerScene()
    const { manager } = scene
    const id = await scene.create()
    await inside(
      scene,
      id,
      'cd; mkdir -p .ssh .config/gh .codex; echo k > .ssh/id; echo k > .codex/auth.json; echo k > .netrc; echo t > .codex/config.toml',
    )
    await manager.snapshot(caller(), id, { name: 'before' })
    await manager.restore(caller(), id, 'before')
    expect(await inside(scene, id, 'cd; find . -type f | sort')).toBe('./.codex/config.toml\n')
  })

  it('is refused with a name that is taken, and without a grant, and leaves nothing behind', async () => {
    await using scene = managerScene()
    const { manager } = scene
    const id = await scene.create()
    await manager.snapshot(caller(), id, { name: 'before' })
    await expect(manager.snapshot(caller(), id, { name: 'before' })).rejects.toMatchObject({
      code: 'conflict',
    })
    await expect(manager.snapshot(caller('local-user:eve'), id)).rejects.toMatchObject({ code: 'denied' })
    const eve = caller('local-user:eve')
    await expect(manager.snapshots.open(eve, 'before')).rejects.toMatchObject({ code: 'denied' })
    await expect(manager.snapshots.delete(eve, 'before')).rejects.toMatchObject({ code: 'denied' })
    await allowCreate(scene.store, 'local-user:eve')
    await expect(manager.fork(eve, id, { from: 'before' })).rejects.toMatchObject({ code: 'denied' })
    expect(snapshotFiles(scene)).toHaveLength(1)
    expect(await manager.list()).toHaveLength(1)
  })

  it('outlives its sandbox, and exists until it is deleted', async () => {
    await using scene = managerScene()
    const { manager } = scene
    const id = await scene.create()
    await manager.snapshot(caller(), id, { name: 'before' })
    await manager.delete(caller(), id)
    await scene.restart()
    expect(await scene.manager.snapshots.list()).toHaveLength(1)
    await scene.manager.snapshots.delete(caller(), 'before')
    expect(await scene.manager.snapshots.list()).toEqual([])
    expect(snapshotFiles(scene)).toEqual([])
  })

  it('that was changed on disk is not restored, and the sandbox continues unchanged', async () => {
    await using scene = managerScene()
    const { manager } = scene
    const id = await scene.create()
    await inside(scene, id, 'head -c 100000 /dev/urandom > a; sha256sum a > sum')
    const { id: snapshot } = await manager.snapshot(caller(), id, { name: 'before' })
    const path = archiveOf(scene, snapshot)
    const whole = readFileSync(path)
    for (const changed of [flipByte(whole, whole.length >> 1), flipByte(whole, 5), whole.subarray(1)]) {
      writeFileSync(path, changed)
      await expect(manager.restore(caller(), id, 'before')).rejects.toMatchObject({ code: 'tampered' })
      expect(await manager.get(id)).toMatchObject({ state: 'running' })
      expect(await inside(scene, id, 'sha256sum -c sum')).toBe('a: OK\n')
    }
  })

  it('whose record was changed in the database is refused', async () => {
    await using scene = managerScene()
    const { manager } = scene
    const id = await scene.create()
    await manager.snapshot(caller(), id, { name: 'before' })
    scene.store.database.exec(`UPDATE snapshots SET document = replace(document, '"before"', '"after"')`)
    await expect(manager.restore(caller(), id, 'after')).rejects.toMatchObject({ code: 'tampered' })
    expect(await manager.snapshots.list()).toMatchObject([{ state: 'damaged' }])
  })

  it('whose record was changed in the database is deleted by its id, with a receipt that says so', async () => {
    await using scene = managerScene()
    const { manager, store } = scene
    const id = await scene.create()
    const { id: damaged } = await manager.snapshot(caller(), id, { name: 'before' })
    const { id: other } = await manager.snapshot(caller(), id, { name: 'other' })
    const change = (from: string, to: string) =>
      store.database
        .prepare('UPDATE snapshots SET document = replace(document, ?, ?) WHERE id = ?')
        .run(from, to, damaged)
    change(MANAGER_OPERATOR, 'local-user:eve')
    // The name and the operator in a changed record are not reliable, so neither is used.
    await expect(manager.snapshots.delete(caller(), 'before')).rejects.toMatchObject({
      code: 'tampered',
      hint: expect.stringContaining(`craik snapshot delete ${damaged}`),
    })
    const eve = { ...caller(), operator: 'local-user:eve' }
    await expect(manager.snapshots.delete(eve, damaged)).rejects.toMatchObject({ code: 'denied' })
    expect(snapshotFiles(scene).sort()).toEqual([damaged, other].sort())
    expect(await manager.snapshots.delete(caller(), damaged)).toBe(damaged)
    expect(snapshotFiles(scene)).toEqual([other])
    expect((await manager.snapshots.list()).map((left) => left.id)).toEqual([other])
    const [end] = await scene.receipts({ operation: 'delete', phase: 'end' })
    expect(end).toMatchObject({
      status: 'passed',
      links: { target_id: damaged },
      metadata: { damaged: true },
    })
    expect(await store.tables.openReceipts.list()).toEqual([])
    for (const { document, revokedAtMs } of await store.tables.grants.list(100))
      if (document.includes(`snapshot/${damaged}`)) expect(revokedAtMs).not.toBeNull()
    await expect(manager.snapshots.delete(caller(), damaged)).rejects.toMatchObject({ code: 'not_found' })
    expect(await manager.restore(caller(), id, 'other')).toMatchObject({ state: 'running' })
  })
})

describe('a restore whose sandbox does not start', () => {
  it('puts the previous disk back, and starts the sandbox with it', async () => {
    const plain = plainBackend()
    let failures = 0
    const backend: SandboxBackend = {
      ...plain,
      create: (spec) => (failures-- > 0 ? Promise.reject(new Error('no room')) : plain.create(spec)),
    }
    await using scene = managerScene(backend)
    const { manager } = scene
    const id = await scene.create()
    await inside(scene, id, 'echo one > a')
    await manager.snapshot(caller(), id, { name: 'before' })
    await inside(scene, id, 'echo two > a')
    failures = 1
    await expect(manager.restore(caller(), id, 'before')).rejects.toMatchObject({ code: 'internal' })
    expect(await manager.get(id)).toMatchObject({ state: 'running' })
    expect(await inside(scene, id, 'cat a')).toBe('two\n')
    failures = 2
    await expect(manager.restore(caller(), id, 'before')).rejects.toMatchObject({ code: 'internal' })
    expect(await manager.get(id)).toMatchObject({ state: 'lost' })
    await manager.resume(caller(), id)
    expect(await inside(scene, id, 'cat a')).toBe('two\n')
    expect(await scene.receipts({ phase: 'end', operation: 'restore', status: 'failed' })).toHaveLength(2)
  })
})

describe('a fork', () => {
  it('has the same disk, limits and policy, and nothing else in common', async () => {
    await using scene = managerScene()
    const { manager } = scene
    const id = await scene.create({ limits: { processes: 77 }, environment: { COLOUR: 'blue' } })
    await inside(scene, id, 'echo one > a')
    await allowCreate(scene.store)
    const fork = await manager.fork(caller(), id, { name: 'child' })
    const origin = await manager.get(id)
    expect(fork).toMatchObject({
      name: 'child',
      state: 'running',
      limits: origin.limits,
      policyEnvelopeId: origin.policyEnvelopeId,
    })
    await inside(scene, fork.id, 'echo two > a')
    expect(await inside(scene, id, 'cat a')).toBe('one\n')
    expect(await inside(scene, fork.id, 'cat a; echo $COLOUR')).toBe('two\nblue\n')
    // The snapshot was taken only for the fork.
    expect(await manager.snapshots.list()).toEqual([])
    expect(snapshotFiles(scene)).toEqual([])
  })

  it('starts from a snapshot if one is named', async () => {
    await using scene = managerScene()
    const { manager } = scene
    const id = await scene.create()
    await inside(scene, id, 'echo one > a')
    await manager.snapshot(caller(), id, { name: 'before' })
    await inside(scene, id, 'echo two > a')
    await allowCreate(scene.store)
    const fork = await manager.fork(caller(), id, { from: 'before' })
    expect(await inside(scene, fork.id, 'cat a')).toBe('one\n')
    expect(await manager.snapshots.list()).toHaveLength(1)
  })

  it('needs a grant to create a sandbox, and leaves nothing behind without it', async () => {
    await using scene = managerScene()
    const id = await scene.create()
    await expect(scene.manager.fork(caller(), id)).rejects.toMatchObject({ code: 'denied' })
    expect(await scene.manager.list()).toHaveLength(1)
    expect(snapshotFiles(scene)).toEqual([])
  })
})
