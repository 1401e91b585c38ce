/** The line itself: TLS, back-pressure, and what a stream of events may look like. */
import { createServer as createHttp, type Server } from 'node:http'
import { createServer as createHttps } from 'node:https'
import type { AddressInfo } from 'node:net'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import fc from 'fast-check'
import { afterEach, describe, expect, it } from 'vitest'
import { selfSigned } from '../../../test/wire/certificate.ts'
import { startChatCompletions } from '../../../test/wire/chat-completions.ts'
import { CredentialMask } from '../../lib/credential-mask.ts'
import { adapterFor } from './adapter-for.ts'
import { asking, endpointAt, gather } from './call.fixture.ts'
import { Upstream } from './counterpart.ts'
import { EventReader, type WireEvent } from './events.ts'
import { failureOf } from './failure.ts'

const servers: Server[] = []
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections()
    server.close()
  }
})

async function listen(server: Server): Promise<number> {
  servers.push(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as AddressInfo).port
}

const ANSWER = 'data: {"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'

describe('TLS', () => {
  // 0.0.0.0 leads to this machine and is not loopback by our rule, so this is the way of hosted providers.
  const HOSTS = ['127.0.0.1', '0.0.0.0']

  async function callOverTls(host: string, trusted: boolean, addresses: readonly string[]) {
    const certificate = selfSigned(addresses)
    let requests = 0
    const server = createHttps(certificate, (_, outgoing) => {
      requests++
      outgoing.writeHead(200, { 'content-type': 'text/event-stream' }).end(ANSWER)
    })
    const baseUrl = `https://${host}:${await listen(server)}/v1`
    const before = getCACertificates('default')
    if (trusted) setDefaultCACertificates([...before, certificate.cert])
    try {
      const adapter = await adapterFor('chat_completions', baseUrl)
      const got = await gather(adapter, endpointAt(baseUrl, { loopbackOnly: false }), asking('hello'))
      return { ...got, requests }
    } finally {
      setDefaultCACertificates(before)
    }
  }

  it.each(HOSTS)('calls %s over TLS when its certificate can be trusted', async (host) => {
    const got = await callOverTls(host, true, HOSTS)
    expect(got).toMatchObject({ text: 'hi', reason: 'end', failure: undefined, requests: 1 })
  })

  it.each(HOSTS)('sends nothing to %s when its certificate cannot be trusted', async (host) => {
    const got = await callOverTls(host, false, HOSTS)
    expect(got).toMatchObject({ failure: { failure: 'unreachable', sent: false }, requests: 0 })
  })

  it('does not let the environment turn the check off', async () => {
    process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'
    try {
      const got = await callOverTls('0.0.0.0', false, HOSTS)
      expect(got).toMatchObject({ failure: { failure: 'unreachable', sent: false }, requests: 0 })
    } finally {
      delete process.env.NODE_TLS_REJECT_UNAUTHORIZED
    }
  })

  it.each(HOSTS)('sends nothing to %s when its certificate is another host’s', async (host) => {
    const got = await callOverTls(host, true, ['127.9.9.9'])
    expect(got).toMatchObject({ failure: { failure: 'unreachable', sent: false }, requests: 0 })
  })

  it('sends nothing where TLS is expected and plain HTTP spoken', async () => {
    await using server = await startChatCompletions([{ kind: 'text', text: 'hi' }])
    const baseUrl = server.baseUrl.replace('http:', 'https:')
    const got = await gather(
      await adapterFor('chat_completions', baseUrl),
      endpointAt(baseUrl),
      asking('hello'),
    )
    expect(got.failure).toMatchObject({ failure: 'unreachable', sent: false })
    expect(server.requests).toEqual([])
  })
})

describe('reading', () => {
  it('takes no more from the server than is asked for', async () => {
    const total = 64 * 1024 * 1024
    const piece = `: ${'x'.repeat(64 * 1024)}\n\n`
    let written = 0
    const { promise: stalled, resolve: stall } = Promise.withResolvers<void>()
    const server = createHttp((_, outgoing) => {
      outgoing.writeHead(200, { 'content-type': 'text/event-stream' })
      outgoing.write('data: {"choices":[{"delta":{"content":"hi"}}]}\n\n')
      const pump = () => {
        while (written < total) {
          written += piece.length
          if (outgoing.write(piece)) continue
          const patience = setTimeout(stall, 300)
          outgoing.once('drain', () => {
            clearTimeout(patience)
            pump()
          })
          return
        }
        stall()
      }
      pump()
    })
    const baseUrl = `http://127.0.0.1:${await listen(server)}/v1`
    const adapter = await adapterFor('chat_completions', baseUrl)
    const request = asking('hello')
    const signal = new AbortController().signal
    for await (const event of adapter.call(endpointAt(baseUrl), request, adapter.encode(request), signal)) {
      expect(event).toEqual({ type: 'text', text: 'hi' })
      await stalled
      break
    }
    expect(written).toBeLessThan(total)
  })

  it('refuses headers that do not end', async () => {
    const server = createHttp((_, outgoing) => {
      outgoing
        .writeHead(200, { 'content-type': 'text/event-stream', 'x-long': 'x'.repeat(64 * 1024) })
        .end(ANSWER)
    })
    const baseUrl = `http://127.0.0.1:${await listen(server)}/v1`
    const got = await gather(
      await adapterFor('chat_completions', baseUrl),
      endpointAt(baseUrl),
      asking('hello'),
    )
    expect(got.failure).toMatchObject({ failure: 'garbage', sent: true })
  })

  it('finds the same events however the bytes are cut', () => {
    const field = fc.string({ unit: 'grapheme', maxLength: 20 }).map((text) => JSON.stringify(text))
    const newline = fc.constantFrom('\n', '\r\n')
    fc.assert(
      fc.property(
        fc.array(field),
        newline,
        fc.infiniteStream(fc.integer({ min: 1, max: 7 })),
        (data, end, sizes) => {
          const bytes = Buffer.from(data.map((each) => `data: ${each}${end}${end}`).join(''))
          const reader = new EventReader(new Upstream('http://127.0.0.1:1/v1', new CredentialMask([])))
          const found: WireEvent[] = []
          for (let at = 0; at < bytes.length; ) {
            const size = sizes.next().value
            found.push(...reader.feed(bytes.subarray(at, at + size)).events)
            at += size
          }
          expect(found.map((event) => event.data)).toEqual(data)
        },
      ),
    )
  })

  it('turns any bytes into events or into garbage, never into another error', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 60 })), (chunks) => {
        const reader = new EventReader(new Upstream('http://127.0.0.1:1/v1', new CredentialMask([])))
        try {
          for (const chunk of chunks) reader.feed(chunk)
        } catch (error) {
          expect(failureOf(error)?.failure).toBe('garbage')
        }
      }),
    )
  })
})
