import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { NEVER_ABORTED } from '../../lib/never-aborted.fixture.ts'
import { expectCraikError, hostileSidecar, sendJson } from './hostile-sidecar.fixture.ts'

describe('a port in the sandbox', () => {
  it('is a stream whose two directions end independently', async () => {
    await using hostile = await hostileSidecar((stream, what) => {
      if (what !== 'POST /ports/80') return
      stream.respond({ ':status': 200 })
      stream.pipe(stream)
    })
    const port = await hostile.boundary.inside.connect(80, NEVER_ABORTED)
    port.end('echo')
    expect(Buffer.concat(await port.toArray()).toString()).toBe('echo')
    expect(hostile.boundary.counts().forwards).toBe(1)
  })

  it('fails when the connection is lost, instead of ending as if it were complete', async () => {
    await using hostile = await hostileSidecar((stream, what) => {
      if (what !== 'POST /ports/80') return
      stream.respond({ ':status': 200 })
      stream.write('half')
      setImmediate(() => hostile.inside.destroy())
    })
    const port = await hostile.boundary.inside.connect(80, NEVER_ABORTED)
    expect((await expectCraikError(port.toArray())).message).toMatch(/was lost/)
  })

  it('reports that no process listens on it', async () => {
    await using hostile = await hostileSidecar((stream) =>
      sendJson(stream, 502, { code: 'refused', message: 'nobody listens on 80' }),
    )
    const failure = await expectCraikError(hostile.boundary.inside.connect(80, NEVER_ABORTED))
    expect(failure).toMatchObject({ code: 'refused_inside', details: { inside: 'refused' } })
  })

  it('closes its stream when the caller aborts', async () => {
    const closed = Promise.withResolvers<number>()
    await using hostile = await hostileSidecar((stream, what) => {
      if (what !== 'POST /ports/80') return
      stream.respond({ ':status': 200 })
      stream.on('close', () => closed.resolve(stream.rstCode))
    })
    const controller = new AbortController()
    const port = await hostile.boundary.inside.connect(80, controller.signal)
    controller.abort()
    expect(await closed.promise).toBe(8)
    await turn()
    expect(port.errored).toMatchObject({ code: 'interrupted' })
  })
})

describe('processes, metrics and signals', () => {
  it('shows process names as one printable line', async () => {
    const process = {
      pid: 7,
      parent: 1,
      name: 'a\u001b[31m\nb',
      state: 'S',
      cpuMs: 1,
      memoryBytes: 1,
      startedAtMs: 1,
    }
    await using hostile = await hostileSidecar((stream) => sendJson(stream, 200, { processes: [process] }))
    expect((await hostile.boundary.inside.processes(NEVER_ABORTED))[0]?.name).toBe('a·[31m·b')
  })

  it('refuses invalid metrics', async () => {
    await using hostile = await hostileSidecar((stream) => sendJson(stream, 200, { cpuMs: -1 }))
    expect((await expectCraikError(hostile.boundary.inside.metrics(NEVER_ABORTED))).code).toBe(
      'boundary_failed',
    )
  })

  it('counts a signal that fails, and passes the failure on', async () => {
    await using hostile = await hostileSidecar((stream) =>
      sendJson(stream, 404, { code: 'not_found', message: 'no process 7' }),
    )
    expect((await expectCraikError(hostile.boundary.inside.signal(7, 'SIGTERM', NEVER_ABORTED))).code).toBe(
      'not_found',
    )
    expect(hostile.boundary.counts().signals).toBe(1)
  })
})
