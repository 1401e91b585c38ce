import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { NEVER_ABORTED } from '../../lib/never-aborted.fixture.ts'

import { sessionScene } from './boundary-session.fixture.ts'

describe('a connection that is lost before it is ready', () => {
  it('is not used for operations and does not count as connected', async () => {
    const gates: PromiseWithResolvers<void>[] = []
    await using scene = await sessionScene({
      onConnected() {
        gates.push(Promise.withResolvers())
        return gates.at(-1)!.promise
      },
    })
    const { session } = scene
    const first = scene.dial('first')
    await scene.waitForEvent('connected')
    first.destroy()
    await scene.waitForEvent('disconnected')
    gates[0]!.resolve()
    await turn()
    expect(session.isConnected).toBe(false)
    const waiting = session.boundary(NEVER_ABORTED)
    scene.dial('second')
    await scene.waitForEvent('connected', 2)
    gates[1]!.resolve()
    expect((await waiting).hello.instance).toBe('second')
    expect(session.isConnected).toBe(true)
  })

  it('does not replace the connection that came after it', async () => {
    const gates: PromiseWithResolvers<void>[] = []
    await using scene = await sessionScene({
      onConnected() {
        gates.push(Promise.withResolvers())
        return gates.at(-1)!.promise
      },
    })
    const { session } = scene
    const first = scene.dial('first')
    await scene.waitForEvent('connected')
    first.destroy()
    await scene.waitForEvent('disconnected')
    const second = scene.dial('second')
    await scene.waitForEvent('connected', 2)
    gates[1]!.resolve()
    expect((await session.boundary(NEVER_ABORTED)).hello.instance).toBe('second')
    gates[0]!.resolve()
    await turn()
    expect((await session.boundary(NEVER_ABORTED)).hello.instance).toBe('second')
    second.destroy()
    await scene.waitForEvent('disconnected', 2)
    expect(session.isConnected).toBe(false)
  })
})

describe('a boundary session', () => {
  it('limits the open connections, and allows a new one after each release', async () => {
    await using scene = await sessionScene()
    const { session } = scene
    const held = Array.from({ length: 512 }, () => session.hold())
    expect(() => session.hold()).toThrow('512 open connections')
    held[0]!()
    held[0]!()
    const again = session.hold()
    expect(() => session.hold()).toThrow('512 open connections')
    for (const release of [...held, again]) release()
  })

  it('every caller of close waits until the pending writes are done', async () => {
    await using scene = await sessionScene()
    const { session } = scene
    const written = Promise.withResolvers<void>()
    session.waitBeforeClose(written.promise)
    let closed = 0
    const both = [session.close(), session.close()].map((closing) => closing.then(() => closed++))
    for (let i = 0; i < 20; i++) await turn()
    expect(closed).toBe(0)
    written.resolve()
    await Promise.all(both)
    expect(() => session.hold()).toThrow('no longer runs')
  })
})
