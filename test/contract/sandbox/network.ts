/** Ports in the sandbox, which the host can reach, and the host's network, which the sandbox cannot reach. */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import type { Duplex } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type GetInstance, NODE_INSIDE, newJobId, startDetached, waitUntil } from './instance.ts'

const [ECHO, COUNT, CLOSED] = [7001, 7002, 7003]

/** One server echoes its input. The other answers only after the client has ended its side. */
const SERVERS = `
const { createServer } = require('net')
createServer({ allowHalfOpen: true }, (s) => s.on('error', () => {}).pipe(s)).listen(${ECHO}, '127.0.0.1')
createServer({ allowHalfOpen: true }, (s) => {
  let bytes = 0
  s.on('error', () => {})
  s.on('data', (chunk) => { bytes += chunk.length })
  s.on('end', () => s.end('counted ' + bytes))
}).listen(${COUNT}, '127.0.0.1', () => require('fs').writeFileSync('servers-up', ''))
`

export function networkContract(getInstance: GetInstance): void {
  const connect = (port: number) => getInstance().client.sandboxes.connectPort(getInstance().box.id, port)
  const exchange = async (stream: Duplex, bytes: Buffer) => {
    stream.end(bytes)
    return buffer(stream)
  }

  describe('a port in the sandbox', () => {
    const jobId = newJobId()
    beforeAll(async () => {
      await startDetached(getInstance(), { kind: 'exec', argv: [NODE_INSIDE, '-e', SERVERS] }, jobId)
      await waitUntil(async () => (await getInstance().box.exec(['test', '-e', 'servers-up'])).code === 0)
    })
    afterAll(() => getInstance().client.jobs.cancel(getInstance().box.id, jobId))

    it('transfers data in both directions', async () => {
      const stream = await connect(ECHO)
      stream.write('first')
      expect(String((await once(stream, 'data'))[0])).toBe('first')
      stream.write('second')
      expect(String((await once(stream, 'data'))[0])).toBe('second')
      stream.end()
      expect((await buffer(stream)).length).toBe(0)
    })

    it('receives the end of the client’s data, and can still answer', async () => {
      const answer = await exchange(await connect(COUNT), randomBytes(1_000_000))
      expect(answer.toString()).toBe('counted 1000000')
    })

    it('serves 50 connections at once, each with its own bytes', async () => {
      const talks = Array.from({ length: 50 }, async () => {
        const bytes = randomBytes(64 * 1024)
        return (await exchange(await connect(ECHO), bytes)).equals(bytes)
      })
      expect(await Promise.all(talks)).toEqual(Array(50).fill(true))
    })

    it('loses nothing when the client reads slowly', async () => {
      const bytes = randomBytes(3_000_000)
      const stream = await connect(ECHO)
      stream.end(bytes)
      const heard: Buffer[] = []
      for await (const chunk of stream) {
        heard.push(chunk)
        if (heard.length % 8 === 0) await sleep(10)
      }
      expect(Buffer.concat(heard).equals(bytes)).toBe(true)
    })

    it('on which nothing listens is refused with an error', async () => {
      await expect(connect(CLOSED)).rejects.toMatchObject({
        code: 'refused_inside',
        message: expect.stringContaining(`port ${CLOSED}`),
      })
    })
  })

  describe('the network', () => {
    it('has only its own loopback interface', async () => {
      const { stdout } = await getInstance().box.exec(['cat', '/proc/net/dev'])
      expect(stdout.split('\n').flatMap((line) => /^\s*(\S+):/.exec(line)?.[1] ?? [])).toEqual(['lo'])
      const attempt = (to: string) =>
        `require('net').connect(${to}).on('connect', () => process.exit(0)).on('error', (e) => { console.log(e.code); process.exit(1) })`
      for (const to of ['{ host: "192.0.2.1", port: 80 }', '{ host: "169.254.169.254", port: 80 }']) {
        expect(await getInstance().box.exec([NODE_INSIDE, '-e', attempt(to)])).toMatchObject({
          code: 1,
          stdout: 'ENETUNREACH\n',
        })
      }
    })

    it('refuses a request to its proxy with a reason and a receipt', async () => {
      const script = `require('http').get({ host: '127.0.0.1', port: 8118, path: 'http://collector.example/x', headers: { host: 'collector.example' } }, (r) => r.pipe(process.stdout))`
      const { stdout } = await getInstance().box.exec([NODE_INSIDE, '-e', script])
      expect(stdout).toContain('blocked by craik')
      expect(stdout).toContain('collector.example')
      const { home } = getInstance()
      const denials = await home.json<unknown[]>(['receipts', 'list', '--kind', 'denial', '--format', 'json'])
      expect(JSON.stringify(denials)).toContain('network.egress')
    })
  })
}
