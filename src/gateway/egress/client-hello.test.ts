import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import { connect as tlsConnect } from 'node:tls'
import { describe, expect, it } from 'vitest'
import { parseHello } from './client-hello.ts'

/** Returns the first bytes that Node itself sends. */
async function realHello(servername: string): Promise<Buffer> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  const [[peer]] = (await Promise.all([once(server, 'connection'), once(socket, 'connect')])) as [
    [typeof socket],
    unknown,
  ]
  const tls = tlsConnect({ socket, servername }).on('error', () => {})
  const [bytes] = (await once(peer, 'data')) as [Buffer]
  for (const one of [tls, socket, peer]) one.destroy()
  server.close()
  return bytes
}

/** Returns the same message in TLS records of a few bytes each. */
function inRecords(hello: Buffer, size: number): Buffer {
  const message = hello.subarray(5)
  const parts: Buffer[] = []
  for (let at = 0; at < message.length; at += size) {
    const part = message.subarray(at, at + size)
    parts.push(Buffer.from([0x16, 3, 1, part.length >> 8, part.length & 0xff]), part)
  }
  return Buffer.concat(parts)
}

describe('the TLS client hello', () => {
  it('names the host, at any split into records', async () => {
    const hello = await realHello('allowed.example')
    for (const bytes of [hello, inRecords(hello, 1), inRecords(hello, 7), inRecords(hello, 200)])
      expect(parseHello(bytes)).toEqual({ is: 'tls', name: 'allowed.example' })
  })

  it('is read only when complete, and never misread', async () => {
    const hello = await realHello('allowed.example')
    for (let length = 0; length < hello.length; length++)
      expect(parseHello(hello.subarray(0, length))).toEqual({ is: 'incomplete' })
  })

  it('can name no host', async () => {
    expect(parseHello(await realHello(''))).toEqual({ is: 'tls', name: undefined })
  })

  it.each([
    'GET / HTTP/1.1\r\n\r\n',
    'CONNECT forbidden.example:443 HTTP/1.1\r\n\r\n',
    'SSH-2.0-OpenSSH\r\n',
    '\u0016\u0002\u0000\u0000\u0005',
    '\u0016\u0003\u0001\u0000\u0000',
    '\u0016\u0003\u0001\u0000\u0005\u0002\u0000\u0000\u0001\u0000',
  ])('is not %j', (text) => expect(parseHello(Buffer.from(text, 'latin1'))).toEqual({ is: 'other' }))

  it('with a false length is not read as TLS', async () => {
    const hello = await realHello('allowed.example')
    for (let at = 9; at < hello.length; at++) {
      const bent = Buffer.from(hello)
      bent[at] = bent[at]! ^ 0xff
      const found = parseHello(bent)
      if (found.is === 'tls') expect(found.name?.length ?? 0).toBeLessThan(300)
    }
  })
})
