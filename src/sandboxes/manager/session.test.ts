import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { NEVER } from '../boundary/hostile-sidecar.fixture.ts'
import { sessionScene } from './session.fixture.ts'

describe('a connection that is lost before it is ready', () => {
  it('is not what operations get, and is not shown as connected', async () => {
    const gates: PromiseWithResolvers<void>[] = []
    await using place = await sessionScene({
      onConnected() {
        gates.push(Promise.withResolvers())
        return gates.at(-1)!.promise
      },
    })
    const { session } = place
    const first = place.dial('first')
    await place.seen('connected')
    first.destroy()
    await place.seen('disconnected')
    gates[0]!.resolve()
    await turn()
    expect(session.connected).toBe(false)
    const waiting = session.boundary(NEVER)
    place.dial('second')
    await place.seen('connected', 2)
    gates[1]!.resolve()
    expect((await waiting).hello.instance).toBe('second')
    expect(session.connected).toBe(true)
  })

  it('does not take the place of the one after it', async () => {
    const gates: PromiseWithResolvers<void>[] = []
    await using place = await sessionScene({
      onConnected() {
        gates.push(Promise.withResolvers())
        return gates.at(-1)!.promise
      },
    })
    const { session } = place
    const first = place.dial('first')
    await place.seen('connected')
    first.destroy()
    await place.seen('disconnected')
    const second = place.dial('second')
    await place.seen('connected', 2)
    gates[1]!.resolve()
    expect((await session.boundary(NEVER)).hello.instance).toBe('second')
    gates[0]!.resolve()
    await turn()
    expect((await session.boundary(NEVER)).hello.instance).toBe('second')
    second.destroy()
    await place.seen('disconnected', 2)
    expect(session.connected).toBe(false)
  })
})

describe('a session', () => {
  it('lets callers have so many streams at a time, and one more for each that is handed back', async () => {
    await using place = await sessionScene()
    const { session } = place
    const held = Array.from({ length: 512 }, () => session.hold())
    expect(() => session.hold()).toThrow('512 open streams')
    held[0]!()
    held[0]!()
    const again = session.hold()
    expect(() => session.hold()).toThrow('512 open streams')
    for (const release of [...held, again]) release()
  })

  it('is closed for everybody who closes it only when it is', async () => {
    await using place = await sessionScene()
    const { session } = place
    const written = Promise.withResolvers<void>()
    session.ending(written.promise)
    let closed = 0
    const both = [session.close(), session.close()].map((closing) => closing.then(() => closed++))
    for (let i = 0; i < 20; i++) await turn()
    expect(closed).toBe(0)
    written.resolve()
    await Promise.all(both)
    expect(() => session.hold()).toThrow('no longer active')
  })
})
