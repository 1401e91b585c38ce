/** Tests that connections to loopback cannot reach another machine. */
import dns from 'node:dns'
import { connect, createServer, Socket } from 'node:net'
import { request } from 'undici'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { loopbackAgent } from './dial-loopback.ts'
import { jsonAnswer, respondWithModels, startModelServer } from './model-server.fixture.ts'

afterEach(() => {
  vi.restoreAllMocks()
})

describe('the loopback dispatcher', () => {
  it('resolves localhost without DNS, so that no DNS answer or hosts file can change it', async () => {
    await using server = await startModelServer(respondWithModels('m'))
    const requested = vi.spyOn(dns, 'lookup')
    // Verifies the spy: a plain connection does call `dns.lookup`.
    await new Promise((done) =>
      connect({ host: 'localhost', port: 1 }).once('error', done).once('connect', done),
    )
    expect(requested).toHaveBeenCalledTimes(1)
    requested.mockClear()
    expect(await get(`http://localhost:${server.port}/v1`)).toBe(200)
    expect(requested).not.toHaveBeenCalled()
  })

  it('finds a server on both IPv6 and IPv4 loopback addresses', async () => {
    await using six = await startModelServer(respondWithModels('m'), '::1')
    expect(await get(`http://localhost:${six.port}/v1`)).toBe(200)
    expect(await get(`http://[::1]:${six.port}/v1`)).toBe(200)
    await using other = await startModelServer(respondWithModels('m'), '127.0.0.2')
    expect(await get(`http://127.0.0.2:${other.port}/v1`)).toBe(200)
  })

  it('dials only its own address, and refuses other loopback addresses', async () => {
    await using mine = await startModelServer(respondWithModels('a'))
    await using other = await startModelServer(respondWithModels('b'))
    const agent = loopbackAgent(mine.baseUrl, { connectTimeoutMs: 1000 })
    try {
      for (const url of [
        other.baseUrl,
        mine.baseUrl.replace('127.0.0.1', 'localhost'),
        'http://192.0.2.1/v1',
      ])
        await expect(request(`${url}/models`, { dispatcher: agent })).rejects.toMatchObject({
          code: 'EACCES',
        })
      expect((await request(`${mine.baseUrl}/models`, { dispatcher: agent })).statusCode).toBe(200)
      expect(other.asked).toEqual([])
    } finally {
      await agent.destroy()
    }
  })

  it('drops a connection to an address other than the dialed one', async () => {
    await using server = await startModelServer(respondWithModels('m'), '127.0.0.3')
    const dial = Socket.prototype.connect
    // Simulates a packet filter or a faulty resolver: the socket connects to another address.
    vi.spyOn(Socket.prototype, 'connect').mockImplementation(function (this: Socket, ...provided: unknown[]) {
      const [options] = provided[0] as [{ host: string }]
      options.host = '127.0.0.3'
      return Reflect.apply(dial, this, provided)
    })
    await expect(get(`http://localhost:${server.port}/v1`)).rejects.toMatchObject({ code: 'EACCES' })
    expect(server.asked).toEqual([])
    expect(await get(`http://127.0.0.3:${server.port}/v1`)).toBe(200)
  })

  it('does not follow redirects', async () => {
    await using server = await startModelServer((response) => {
      response.writeHead(302, { location: 'http://192.0.2.1/v1/models' }).end()
    })
    expect(await get(server.baseUrl)).toBe(302)
    expect(server.asked).toEqual(['GET /v1/models'])
  })

  it('ignores proxies', async () => {
    await using proxy = await startModelServer(jsonAnswer('the proxy'))
    await using server = await startModelServer(respondWithModels('m'))
    vi.stubEnv('http_proxy', `http://127.0.0.1:${proxy.port}`)
    vi.stubEnv('HTTP_PROXY', `http://127.0.0.1:${proxy.port}`)
    try {
      expect(await get(server.baseUrl)).toBe(200)
      expect([proxy.asked, server.asked]).toEqual([[], ['GET /v1/models']])
    } finally {
      vi.unstubAllEnvs()
    }
  })

  it('times out on a TLS server that never finishes its handshake', async () => {
    const silent = createServer(() => {})
    await new Promise<void>((done) => silent.listen(0, '127.0.0.1', done))
    const { port } = silent.address() as { port: number }
    try {
      const agent = loopbackAgent(`https://127.0.0.1:${port}`, { connectTimeoutMs: 50 })
      await expect(request(`https://127.0.0.1:${port}/models`, { dispatcher: agent })).rejects.toMatchObject({
        code: 'ETIMEDOUT',
      })
      await agent.destroy()
    } finally {
      silent.close()
    }
  })

  it('cannot be created for an address outside loopback', () => {
    for (const url of ['http://example.com/v1', 'http://2130706433/v1', 'http://[::ffff:127.0.0.1]/v1'])
      expect(() => loopbackAgent(url, { connectTimeoutMs: 1 })).toThrow(/invalid base URL/)
  })
})

async function get(baseUrl: string): Promise<number> {
  const agent = loopbackAgent(baseUrl, { connectTimeoutMs: 2000 })
  try {
    const { statusCode, body } = await request(`${baseUrl}/models`, { dispatcher: agent })
    await body.dump()
    return statusCode
  } finally {
    await agent.destroy()
  }
}
