import { Readable } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { listGrants, revokeGrant } from '../../policy/grants.ts'
import { OPERATIONS, type OperationName } from '../operations.ts'
import { ATTEMPTS, requireAllDenied } from './attempts.fixture.ts'
import { caller, exec, jobId, MANAGER_OPERATOR, managerScene, readOutput } from './manager.fixture.ts'
import { createScriptedBackend } from './scripted-instance.fixture.ts'

describe('without a grant', () => {
  it('no operation of the table reaches the sidecar, and each is recorded as a denial', async () => {
    await using scene = managerScene()
    await requireAllDenied(scene, await scene.create())
  })

  it('no other request reaches the sidecar', async () => {
    const backend = createScriptedBackend()
    await using scene = managerScene(backend)
    const id = await scene.create()
    const [by, job] = [caller('local-user:mallory'), jobId()]
    const { jobs, files } = scene.manager
    expect(await files.getUpload(by, id, job)).toBeUndefined()
    for (const attempt of [
      () => jobs.status(by, id, job),
      () => jobs.output(by, id, job, 0),
      () => jobs.input(by, id, job, { offset: 0, end: true, body: Readable.from([]) }),
      () => jobs.acknowledge(by, id, job, 0),
      () => jobs.control(by, id, job, { signal: 'SIGTERM' }),
      () => jobs.cancel(by, id, job),
    ])
      await expect(attempt()).rejects.toMatchObject({ code: 'not_found' })
    await requireAllDenied(scene, id)
    expect(new Set(backend.asked)).toEqual(new Set(['GET /hello', 'POST /accept']))
  })

  it('a port is refused before a client connects to it, with a denial that names the port', async () => {
    const backend = createScriptedBackend()
    await using scene = managerScene(backend)
    const id = await scene.create()
    const { inside } = scene.manager
    const before = await scene.receipts()
    await inside.mayConnect(caller(), id, 3000)
    // The check in advance allows nothing, so it uses no grant and writes no receipt.
    expect(await scene.receipts()).toEqual(before)
    for (const { grant } of await listGrants(scene.store, Date.now()))
      if (grant.capability === 'sandbox.forward') await revokeGrant(scene.store, grant.id, MANAGER_OPERATOR)
    await expect(inside.mayConnect(caller(), id, 3000)).rejects.toMatchObject({
      code: 'denied',
      hint: expect.stringContaining('craik grant create --capability sandbox.forward'),
    })
    expect(await scene.receipts({ kind: 'denial' })).toMatchObject([
      { capability: 'sandbox.forward', operation: 'connect', metadata: { port: 3000 } },
    ])
    expect(new Set(backend.asked)).toEqual(new Set(['GET /hello', 'POST /accept']))
  })

  it('an operation whose grant was revoked does not reach the sidecar', async () => {
    await using scene = managerScene()
    const id = await scene.create()
    const job = { spec: exec('true') }
    await readOutput((await scene.manager.jobs.start(caller(), id, jobId(), job)).output)
    for (const { grant } of await listGrants(scene.store, Date.now()))
      if (grant.capability === 'sandbox.exec') await revokeGrant(scene.store, grant.id, MANAGER_OPERATOR)
    await expect(scene.manager.jobs.start(caller(), id, jobId(), job)).rejects.toMatchObject({
      code: 'denied',
    })
    await expect(scene.manager.files.stat(caller(), id, '.')).resolves.toMatchObject({ type: 'folder' })
  })
})

describe('with the grants that come with a sandbox', () => {
  it('the receipts account for everything that the boundary counted', async () => {
    await using scene = managerScene()
    const id = await scene.create()
    const { manager } = scene
    for (const name of Object.keys(ATTEMPTS) as OperationName[]) {
      if (OPERATIONS[name].counted === undefined) continue
      // A request for a missing file, or one that the sandbox refuses, still crosses the boundary.
      const answer = await ATTEMPTS[name](manager, caller(), id).catch(() => undefined)
      const { output, body } = (answer ?? {}) as { output?: Readable; body?: Readable }
      output?.destroy()
      body?.destroy()
      if (answer instanceof Readable) answer.destroy()
    }
    await manager.close()
    const [counts] = await scene.receipts({ capability: 'sandbox.boundary' })
    const begins = await scene.receipts({ phase: 'begin' })
    for (const kind of ['jobs', 'reads', 'writes', 'forwards', 'looks', 'signals'] as const) {
      const counted = counts?.measures?.find((measure) => measure.name === kind)?.value
      const operations = Object.values(OPERATIONS).filter((operation) => operation.counted === kind)
      const receipted = begins.filter((begin) =>
        operations.some(
          ({ capability, operation }) => begin.capability === capability && begin.operation === operation,
        ),
      )
      expect([kind, counted]).toEqual([kind, operations.length])
      expect([kind, receipted.length]).toEqual([kind, operations.length])
    }
  })
})
