import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ATTACKS, attack, FINE } from '../../../test/egress/attacks.ts'
import { openScene, type Scene, WAYS_OUT } from './egress-proxy.fixture.ts'

describe('attacks through the proxy', () => {
  let scene: Scene
  beforeAll(async () => {
    scene = await openScene()
    for (const [typed, methods] of WAYS_OUT) await scene.allow(typed, methods && { methods })
  })
  afterAll(() => scene.close())

  it.each(ATTACKS)('$name', async (one) => {
    const [seen, dialled] = [scene.seen.length, scene.dialled.length]
    expect(await attack(scene.port, one)).toMatch(one.refused)
    const reached = scene.seen.slice(seen).filter((line) => !FINE.test(line))
    expect(reached).toEqual([])
    const places = new Set(
      scene.dialled.slice(dialled).map((location) => location.slice(0, location.lastIndexOf(':'))),
    )
    expect([...places].filter((address) => address !== '93.184.216.34')).toEqual([])
    expect(scene.lookedUp).not.toContain('forbidden.example')
  })
})

describe('the same attacks through a proxy that allows everything', () => {
  it('succeed, except those that no HTTP server accepts', async () => {
    const server = createServer((_, response) => response.end('through'))
    server.on('connect', (_, stream) => stream.end('HTTP/1.1 200 OK\r\n\r\nthrough'))
    server.on('upgrade', (_, stream) => stream.end('HTTP/1.1 101 Switching\r\n\r\nthrough'))
    await once(server.listen(0, '127.0.0.1'), 'listening')
    const { port } = server.address() as AddressInfo
    const answers = await Promise.all(
      ATTACKS.map(async (one) => ({ ...one, answer: await attack(port, one) })),
    )
    server.closeAllConnections()
    server.close()
    const fought = answers.filter(({ refused, answer }) => refused.test(answer)).map(({ name }) => name)
    expect(fought.filter((name) => !READ_BY_NOBODY.test(name))).toEqual([])
  })
})

/** Node's own parser refuses these. */
const READ_BY_NOBODY =
  /a NUL byte|backslash|line break|looks like one|two lengths|two different|transfer encoding|carriage|never ends|not HTTP|nothing/
