import { createServer } from 'node:http'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { tempFolder } from '../../test/temp-folder.ts'
import type { SandboxEventBody } from '../operator/api/bodies.ts'
import { createClient } from './client.ts'

const event = (at_ms: number, message: string): SandboxEventBody => ({ at_ms, type: 'job_ended', message })

/** Serves one of these lists per connection. Each connection but the last breaks off after its list. */
async function follow(...connections: readonly (readonly SandboxEventBody[])[]): Promise<string[]> {
  const socketPath = join(tempFolder('craik-follow-'), 'api.sock')
  let served = 0
  const server = createServer((_request, response) => {
    const events = connections[served++]!
    response.write(events.map((one) => `${JSON.stringify(one)}\n`).join(''), () => {
      if (served === connections.length) response.end()
      else setTimeout(() => response.destroy(), 5)
    })
  })
  server.listen(socketPath)
  using client = createClient({ connect: async () => ({ socketPath, token: 'none' }) })
  try {
    const seen: string[] = []
    for await (const { message } of client.sandboxes.events('place', { follow: true })) seen.push(message!)
    return seen
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

describe('a follower of events', () => {
  it('reports events that happened after the clock was set back', async () => {
    const events = [event(9_000, 'a'), event(9_001, 'b'), event(5_000, 'c'), event(5_000, 'd')]
    expect(await follow(events)).toEqual(['a', 'b', 'c', 'd'])
    expect(await follow(events, [...events, event(5_001, 'e')])).toEqual(['a', 'b', 'c', 'd', 'e'])
    expect(await follow(events.slice(0, 2), events)).toEqual(['a', 'b', 'c', 'd'])
  })

  it('reports equal events as often as they happened', async () => {
    const twice = [event(1, 'a'), event(1, 'a')]
    expect(await follow(twice, [...twice, event(1, 'a')])).toEqual(['a', 'a', 'a'])
  })

  it('repeats nothing when the sandbox no longer keeps its oldest events', async () => {
    const events = Array.from({ length: 1500 }, (_, i) => event(Math.floor(i / 3), String(i)))
    const seen = await follow(events.slice(0, 900), events.slice(200, 1200), events.slice(500))
    expect(seen).toEqual(events.map(({ message }) => message))
  })
})
