import { once } from 'node:events'
import { connect } from 'node:http2'
import { duplexPair } from 'node:stream'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { LIMITS, PROTOCOL_HEADER } from './protocol.ts'
import { Router, type SidecarRoute } from './router.ts'
import { serve } from './server.ts'
import { collectAnswer, sh, TestHost, until } from './sidecar.fixture.ts'

let host: TestHost
beforeAll(async () => {
  host = await TestHost.start()
})
afterAll(async () => {
  await host[Symbol.asyncDispose]()
})

describe('the sidecar', () => {
  it('identifies itself', async () => {
    const { status, value } = await host.json('GET', '/hello')
    expect(status).toBe(200)
    expect(value).toMatchObject({ protocol: 1, version: 'test', workspace: host.workspace, pty: true })
    expect((value as { gatewayPort: number }).gatewayPort).toBeGreaterThan(0)
  })

  it('refuses a host that speaks another protocol, or names none', async () => {
    for (const headers of [{ [PROTOCOL_HEADER]: '2' }, {}]) {
      const stream = host.session.request({ ':method': 'GET', ':path': '/hello', ...headers })
      const { status, body } = await collectAnswer(stream)
      expect(status).toBe(426)
      expect(JSON.parse(body.toString()).code).toBe('protocol')
    }
  })

  it.each([
    ['GET', '/nothing', undefined, 404, 'not_found'],
    ['DELETE', '/hello', undefined, 400, 'usage'],
    ['GET', '/jobs/none', undefined, 404, 'not_found'],
    ['GET', '/jobs/%ff', undefined, 400, 'usage'],
    ['GET', '/jobs/a%2fb', undefined, 400, 'usage'],
    ['PUT', '/jobs/j', Buffer.from('{'), 400, 'usage'],
    ['PUT', '/jobs/j', { kind: 'exec' }, 400, 'usage'],
    ['PUT', '/jobs/j', { kind: 'exec', argv: [] }, 400, 'usage'],
    ['PUT', '/jobs/j', { kind: 'exec', argv: ['a\0b'] }, 400, 'usage'],
    ['PUT', '/jobs/j', { kind: 'exec', argv: ['true'], extra: 1 }, 400, 'usage'],
    ['PUT', '/jobs/j', { kind: 'exec', argv: ['x'.repeat(LIMITS.argvBytes)] }, 400, 'usage'],
    ['PUT', '/jobs/j', { kind: 'exec', argv: ['true'], env: { 'A=B': 'c' } }, 400, 'usage'],
    ['PUT', '/jobs/j', { kind: 'exec', argv: ['true'], timeoutMs: 0.5 }, 400, 'usage'],
    ['PUT', '/jobs/j', { kind: 'terminal', argv: ['true'], cols: 0, rows: 1 }, 400, 'usage'],
    ['PUT', '/jobs/j', Buffer.alloc(LIMITS.jsonBytes + 1, 0x20), 413, 'too_large'],
    ['PUT', '/jobs/j?attach=2', { kind: 'exec', argv: ['true'] }, 400, 'usage'],
    ['POST', '/jobs/none/input?offset=x', undefined, 404, 'not_found'],
  ])('answers %s %s with an error, and continues (%#)', async (method, path, body, status, code) => {
    const answer = await host.json(method, path, body)
    expect(answer.status).toBe(status)
    expect(answer.value).toMatchObject({ code })
    expect((await host.ask('GET', '/hello')).status).toBe(200)
  })

  it('survives streams that are cut at any point', async () => {
    const paths = ['/hello', '/jobs', '/jobs/cut/output', '/jobs/cut/input?offset=0', '/metrics', '/accept']
    await host.start(sh('sleep 100', { stdin: true }), 'cut')
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...paths),
        fc.constantFrom('GET', 'POST', 'PUT'),
        fc.boolean(),
        async (path, method, wait) => {
          const stream = host.request(method, path)
          stream.write('{')
          if (wait) await new Promise((resolve) => setImmediate(resolve))
          stream.destroy()
        },
      ),
      { numRuns: 100 },
    )
    expect((await host.ask('GET', '/hello')).status).toBe(200)
    await host.ask('DELETE', '/jobs/cut')
  })

  it('survives a peer that does not speak HTTP/2', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ minLength: 1, maxLength: 200 }), async (bytes) => {
        const [ours, theirs] = duplexPair()
        const session = serve(theirs, host.sidecar.router, () => {})
        ours.on('error', () => {})
        ours.end(Buffer.concat([Buffer.from('GET / HTTP/1.1\r\n\r\n'), bytes]))
        ours.resume()
        await until(() => session.destroyed)
      }),
      { numRuns: 20 },
    )
    expect((await host.ask('GET', '/hello')).status).toBe(200)
  })

  it('continues to read while it has more to send than the host takes', async () => {
    const route: SidecarRoute = {
      method: 'POST',
      path: '/echo',
      handle(call) {
        call.respond(200)
        call.stream.pipe(call.stream)
      },
    }
    const [ours, theirs] = duplexPair()
    serve(theirs, new Router([route]), () => {})
    const settings = { initialWindowSize: LIMITS.streamWindowBytes }
    const session = connect('http://sidecar', { createConnection: () => ours, settings })
    await once(session, 'remoteSettings')
    session.setLocalWindowSize(LIMITS.copyWindowBytes)
    const body = Buffer.alloc(256 * 1024, 'x')
    const sizes = Array.from({ length: 60 }, async () => {
      const stream = session.request({ ':method': 'POST', ':path': '/echo', [PROTOCOL_HEADER]: '1' })
      stream.end(body)
      return (await collectAnswer(stream)).body.length
    })
    expect(await Promise.all(sizes)).toEqual(Array(60).fill(body.length))
    session.destroy()
  })

  it('answers an unexpected failure with an error, and logs it', async () => {
    const lines: string[] = []
    const route: SidecarRoute = {
      method: 'GET',
      path: '/broken',
      handle() {
        throw new Error('unforeseen')
      },
    }
    const [ours, theirs] = duplexPair()
    serve(theirs, new Router([route]), (line) => lines.push(line))
    const session = connect('http://sidecar', { createConnection: () => ours })
    const { status } = await collectAnswer(session.request({ ':path': '/broken', [PROTOCOL_HEADER]: '1' }))
    expect(status).toBe(500)
    expect(lines[0]).toContain('unforeseen')
    session.destroy()
  })
})
