import { createHash, createHmac, randomBytes } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { selfSigned } from '../../../../test/wire/certificate.ts'
import type { ExportDestination } from './destination.ts'
import { parseDestination } from './destination.ts'
import { MAX_PUT_BYTES, putFile } from './put-file.ts'

const CONTENT = randomBytes(300_000)
const KEYS = { accessKeyId: 'ID', secretKey: 'a secret that nobody has' }
const NOW = new Date('2026-01-02T03:04:05Z')
const { key, cert } = selfSigned(['127.0.0.1'])

let server: Server
let port: number
let seen: { request: IncomingMessage; body: Buffer }[]
let answer: { status: number; headers?: Record<string, string>; body?: string }

beforeAll(async () => {
  server = createServer({ key, cert }, (request, response) => {
    const parts: Buffer[] = []
    request.on('data', (chunk: Buffer) => parts.push(chunk))
    request.on('end', () => {
      seen.push({ request, body: Buffer.concat(parts) })
      response.writeHead(answer.status, answer.headers).end(answer.body)
    })
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  port = (server.address() as AddressInfo).port
})
afterAll(() => new Promise((done) => server.close(done)))
beforeEach(() => {
  seen = []
  answer = { status: 200 }
})

const put = (destination: ExportDestination, more = {}) =>
  putFile(
    destination,
    { bytes: CONTENT.length, open: () => Readable.from([CONTENT.subarray(0, 1000), CONTENT.subarray(1000)]) },
    {
      allowPrivate: true,
      authorities: [cert],
      keys: KEYS,
      now: NOW,
      until: AbortSignal.timeout(10_000),
      ...more,
    },
  )
const here = (path = '/kept/x.tar?sig=secret') =>
  parseDestination({ destination: `https://127.0.0.1:${port}${path}` })
const destinationOf = (path = '/x') => parseDestination({ destination: `https://localhost:${port}${path}` })

describe('an upload by PUT', () => {
  it('sends every byte, with its length, to the requested path and query', async () => {
    await put(here())
    expect(seen).toHaveLength(1)
    expect(seen[0]!.request).toMatchObject({ method: 'PUT', url: '/kept/x.tar?sig=secret' })
    expect(seen[0]!.request.headers).toMatchObject({
      'content-length': String(CONTENT.length),
      host: `127.0.0.1:${port}`,
    })
    expect(seen[0]!.body.equals(CONTENT)).toBe(true)
  })

  it('connects to a private address only if that was allowed', async () => {
    for (const destination of [here(), destinationOf()]) {
      await expect(put(destination, { allowPrivate: false })).rejects.toMatchObject({
        code: 'export_failed',
        details: { reason: 'private_address' },
      })
    }
    expect(seen).toEqual([])
  })

  it('refuses a name if one of its addresses is private', async () => {
    const resolve = async () => ['1.1.1.1', '127.0.0.1']
    await expect(put(destinationOf(), { allowPrivate: false, resolve })).rejects.toMatchObject({
      details: { reason: 'private_address' },
    })
    expect(seen).toEqual([])
  })

  it('resolves a name once, and connects to the address that was checked', async () => {
    let requestCount = 0
    const resolve = async () => (++requestCount === 1 ? ['127.0.0.1'] : ['127.0.0.2'])
    await put(destinationOf(), { resolve })
    expect(requestCount).toBe(1)
    expect(seen).toHaveLength(1)
  })

  it('compares the certificate with the name, whatever the address', async () => {
    const other = parseDestination({ destination: `https://other.example:${port}/x` })
    await expect(put(other, { resolve: async () => ['127.0.0.1'] })).rejects.toMatchObject({
      code: 'export_failed',
      message: expect.stringContaining('ERR_TLS_CERT_ALTNAME_INVALID'),
    })
    await expect(put(here(), { authorities: undefined })).rejects.toMatchObject({ code: 'export_failed' })
    expect(seen).toEqual([])
  })

  it.each([301, 302, 307, 308])('does not follow a redirect (%i)', async (status) => {
    answer = { status, headers: { location: `https://127.0.0.1:${port}/elsewhere` } }
    await expect(put(here())).rejects.toMatchObject({ code: 'export_failed', details: { status } })
    expect(seen).toHaveLength(1)
  })

  it('fails for every status except success, and repeats only a code of the response', async () => {
    answer = { status: 403, body: '<Error><Code>AccessDenied</Code><Message>sig=secret</Message></Error>' }
    const refused = await put(here()).catch((error: Error) => error)
    expect(refused).toMatchObject({ code: 'export_failed', details: { status: 403, code: 'AccessDenied' } })
    expect(JSON.stringify(refused)).not.toContain('secret')
    expect((refused as Error).message).not.toContain('secret')
  })

  it('refuses more than a store accepts in one request before it opens the content', async () => {
    const content = { bytes: MAX_PUT_BYTES + 1, open: () => Readable.from([]) }
    const options = { allowPrivate: true, now: NOW, until: AbortSignal.timeout(1000) }
    await expect(putFile(here(), content, options)).rejects.toMatchObject({ code: 'too_large' })
  })

  it('signs requests for an S3-compatible store so that the store can verify them', async () => {
    const destination = parseDestination({
      destination: 's3://backups/a/b.tar',
      endpoint: `https://127.0.0.1:${port}`,
      region: 'eu-west-1',
      accessKeyRef: 'A',
      secretKeyRef: 'B',
    })
    await put(destination)
    const { request, body } = seen[0]!
    expect(request.url).toBe('/backups/a/b.tar')
    expect(body.equals(CONTENT)).toBe(true)
    expect(request.headers.authorization).toBe(expectedAuthorization(request))
  })
})

/** Computes the signature as the store does, from the received request. */
function expectedAuthorization({ method, url, headers }: IncomingMessage): string {
  const claimed = /SignedHeaders=([^,]+),/.exec(headers.authorization ?? '')![1]!
  expect(claimed.split(';')).toEqual(
    expect.arrayContaining(['host', 'x-amz-content-sha256', 'x-amz-date', 'content-length']),
  )
  const lines = claimed.split(';').map((name) => `${name}:${String(headers[name])}\n`)
  const canonical = `${method}\n${url}\n\n${lines.join('')}\n${claimed}\n${String(headers['x-amz-content-sha256'])}`
  const date = String(headers['x-amz-date'])
  const day = date.slice(0, 8)
  const scope = `${day}/eu-west-1/s3/aws4_request`
  const text = `AWS4-HMAC-SHA256\n${date}\n${scope}\n${createHash('sha256').update(canonical).digest('hex')}`
  const mac = (by: Buffer | string, of: string) => createHmac('sha256', by).update(of).digest()
  const signing = mac(mac(mac(mac(`AWS4${KEYS.secretKey}`, day), 'eu-west-1'), 's3'), 'aws4_request')
  const signature = createHmac('sha256', signing).update(text).digest('hex')
  return `AWS4-HMAC-SHA256 Credential=${KEYS.accessKeyId}/${scope},SignedHeaders=${claimed},Signature=${signature}`
}
