/** No address, socket family or protocol leads out of the sandbox, and servers on the host are out of reach. */
import { randomBytes } from 'node:crypto'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { chmodSync, readFileSync } from 'node:fs'
import { type AddressInfo, createServer, type Server } from 'node:net'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { expectToWork, type Scenario, tryIn } from './scene.ts'

const CONNECT = 'socket.create_connection((args[0], int(args[1])), 5).close()'
const CONNECT_UNIX = `
  client = socket.socket(socket.AF_UNIX)
  client.settimeout(5)
  client.connect(args[0].replace('@', '\\0', 1))`
/** Sends a DNS query and waits for any answer. */
const ASK_DNS = `
  family = socket.AF_INET6 if ':' in args[0] else socket.AF_INET
  client = socket.socket(family, socket.SOCK_DGRAM)
  client.settimeout(5)
  client.connect((args[0], int(args[1])))
  client.send(bytes.fromhex('beef01000001000000000000') + b'\\x05craik\\x04test\\x00\\x00\\x01\\x00\\x01')
  client.recv(512)`
const PING = `
  def ping(kind):
      client = socket.socket(socket.AF_INET, kind, socket.IPPROTO_ICMP)
      client.settimeout(5)
      client.sendto(bytes.fromhex('0800f7fe00010000'), (args[0], 0))
      client.recv(512)
  try: ping(socket.SOCK_RAW)
  except OSError: ping(socket.SOCK_DGRAM)`

/**
 * Addresses with a meaning in clouds and home networks. The tests use them only in the sandbox, which has no network.
 */
const ELSEWHERE = [
  '169.254.169.254',
  'fd00:ec2::254',
  '168.63.129.16',
  '10.0.0.1',
  '192.168.1.1',
  '192.0.2.1',
]
const NO_WAY = ['failed ENETUNREACH', 'failed EADDRNOTAVAIL', 'failed EHOSTUNREACH']

export const network: Scenario = (scene) => {
  it('no program in the sandbox reaches a server on the host’s loopback, or the metadata address', async () => {
    const { box } = scene()
    await using server = await startListening(createServer(), { host: '127.0.0.1', port: 0 })
    const { port } = server.at.address() as AddressInfo
    await expectToWork(['network namespace'], CONNECT, ['127.0.0.1', String(port)])
    expect(server.connections()).toBe(1)
    expect(await tryIn(box, CONNECT, ['127.0.0.1', String(port)])).toBe('failed ECONNREFUSED')
    for (const address of ELSEWHERE) expect(NO_WAY).toContain(await tryIn(box, CONNECT, [address, '80']))
    expect(server.connections()).toBe(1)
  })

  it('no program in the sandbox queries a name server: neither one on the host nor the one that the host uses', async () => {
    const { box } = scene()
    const server = createSocket('udp4', (_message, from) => server.send('answer', from.port, from.address))
    let requestCount = 0
    server.on('message', () => requestCount++)
    server.bind(0, '127.0.0.1')
    await once(server, 'listening')
    try {
      const port = String(server.address().port)
      await expectToWork(['network namespace'], ASK_DNS, ['127.0.0.1', port])
      expect(requestCount).toBe(1)
      expect(await tryIn(box, ASK_DNS, ['127.0.0.1', port])).toBe('failed ECONNREFUSED')
      expect(requestCount).toBe(1)
    } finally {
      server.close()
    }
    const used = readFileSync('/etc/resolv.conf', 'utf8').matchAll(/^nameserver\s+([0-9a-f.:]+)\s*$/gim)
    for (const address of [...[...used].map((match) => match[1]!), '192.0.2.53', '2001:db8::53']) {
      const answers = address.startsWith('127.') ? ['failed ECONNREFUSED'] : NO_WAY
      expect(answers).toContain(await tryIn(box, ASK_DNS, [address, '53']))
    }
    expect(await tryIn(box, "socket.getaddrinfo('example.com', 80)")).toMatch(/^failed -\d+$/)
  })

  it('no program in the sandbox pings', async () => {
    await expectToWork(['seccomp', 'capabilities', 'no user namespaces'], PING, ['127.0.0.1'])
    for (const address of ['127.0.0.1', '169.254.169.254'])
      expect(await tryIn(scene().box, PING, [address])).toBe('failed EACCES')
  })

  it('no program in the sandbox reaches an abstract socket of the host', async () => {
    const name = `craik-escape-${randomBytes(8).toString('hex')}`
    await using server = await startListening(createServer(), { path: `\0${name}` })
    await expectToWork(['network namespace'], CONNECT_UNIX, [`@${name}`])
    expect(await tryIn(scene().box, CONNECT_UNIX, [`@${name}`])).toBe('failed ECONNREFUSED')
    expect(server.connections()).toBe(1)
  })

  it('no program in the sandbox reaches a socket in a folder of the host, not even that of Craik', async () => {
    const { box, home, outside } = scene()
    const path = join(outside, 'listening.sock')
    await using server = await startListening(createServer(), { path })
    chmodSync(path, 0o777)
    // A program can connect to a socket even on a read-only mount.
    await expectToWork([], CONNECT_UNIX, [path], { shown: ['--ro-bind', outside, outside] })
    expect(server.connections()).toBe(1)
    expect(await tryIn(box, CONNECT_UNIX, [path])).toBe('failed ENOENT')
    expect(await tryIn(box, CONNECT_UNIX, [join(home.home, 'run/craik.sock')])).toBe('failed ENOENT')
    expect(server.connections()).toBe(1)
  })
}

async function startListening(
  at: Server,
  where: { readonly path?: string; readonly host?: string; readonly port?: number },
) {
  let count = 0
  at.on('connection', (socket) => {
    count++
    socket.on('error', () => {})
    socket.end()
  })
  at.listen(where)
  await once(at, 'listening')
  return {
    at,
    connections: () => count,
    async [Symbol.asyncDispose]() {
      at.close()
      await once(at, 'close')
    },
  }
}
