import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { failureOf, hostileSidecar, json, NEVER } from './hostile-sidecar.fixture.ts'

describe('a port inside', () => {
  it('is a stream whose halves end one by one', async () => {
    await using hostile = await hostileSidecar((stream, what) => {
      if (what !== 'POST /ports/80') return
      stream.respond({ ':status': 200 })
      stream.pipe(stream)
    })
    const port = await hostile.boundary.inside.connect(80, NEVER)
    port.end('echo')
    expect(Buffer.concat(await port.toArray()).toString()).toBe('echo')
    expect(hostile.boundary.counts().forwards).toBe(1)
  })

  it('fails when it is reset, instead of ending as if it were whole', async () => {
    await using hostile = await hostileSidecar((stream, what) => {
      if (what !== 'POST /ports/80') return
      stream.respond({ ':status': 200 })
      stream.write('half')
      setImmediate(() => hostile.inside.destroy())
    })
    const port = await hostile.boundary.inside.connect(80, NEVER)
    expect((await failureOf(port.toArray())).message).toMatch(/was lost/)
  })

  it('that nobody listens on says so', async () => {
    await using hostile = await hostileSidecar((stream) =>
      json(stream, 502, { code: 'refused', message: 'nobody listens on 80' }),
    )
    const failure = await failureOf(hostile.boundary.inside.connect(80, NEVER))
    expect(failure).toMatchObject({ code: 'refused_inside', details: { inside: 'refused' } })
  })

  it('is let go of when the caller leaves', async () => {
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

describe('processes and figures', () => {
  it('shows names as one line, whatever they are', async () => {
    const process = {
      pid: 7,
      parent: 1,
      name: 'a\u001b[31m\nb',
      state: 'S',
      cpuMs: 1,
      memoryBytes: 1,
      startedAtMs: 1,
    }
    await using hostile = await hostileSidecar((stream) => json(stream, 200, { processes: [process] }))
    expect((await hostile.boundary.inside.processes(NEVER))[0]?.name).toBe('a·[31m·b')
  })

  it('refuses figures that cannot be', async () => {
    await using hostile = await hostileSidecar((stream) => json(stream, 200, { cpuMs: -1 }))
    expect((await failureOf(hostile.boundary.inside.metrics(NEVER))).code).toBe('boundary_failed')
  })

  it('counts a signal, and passes on that it cannot be', async () => {
    await using hostile = await hostileSidecar((stream) =>
      json(stream, 404, { code: 'not_found', message: 'no process 7' }),
    )
    expect((await failureOf(hostile.boundary.inside.signal(7, 'SIGTERM', NEVER))).code).toBe('not_found')
    expect(hostile.boundary.counts().signals).toBe(1)
  })
})
