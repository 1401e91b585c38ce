import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { CraikError } from '../../../errors.ts'
import { parseDestination } from './destination.ts'

const KEYS = { accessKeyRef: 'ID', secretKeyRef: 'KEY' }
const parse = (destination: string) => parseDestination({ destination })
const refusal = (destination: string, more = {}) => {
  try {
    parseDestination({ destination, ...more })
  } catch (error) {
    return error
  }
  return undefined
}

describe('an https destination', () => {
  it('is split once, with the query only in the path of the request', () => {
    expect(parse('https://Backup.Example.com/a/b.tar?sig=abc')).toEqual({
      kind: 'https',
      host: 'backup.example.com',
      port: 443,
      path: '/a/b.tar?sig=abc',
    })
    expect(parse('https://1.1.1.1:8443')).toMatchObject({ host: '1.1.1.1', port: 8443, path: '/' })
    expect(parse('https://[2606:4700::1111]/x')).toMatchObject({ host: '2606:4700::1111', path: '/x' })
  })

  it.each([
    ['a user name that is another host’s', 'https://1.1.1.1:80@10.0.0.1/'],
    ['a user name and a password', 'https://a:b@example.com/'],
    ['an encoded @', 'https://example.com%40evil.example/'],
    ['plain http', 'http://example.com/'],
    ['another scheme', 'file:///etc/passwd'],
    ['no scheme', '//example.com/x'],
    ['a fragment', 'https://example.com/a#b'],
    ['a blank', 'https://example.com/a b'],
    ['a line break', 'https://example.com/a\r\nHost: evil'],
    ['a NUL', 'https://example.com\0.evil/'],
    ['a backslash', 'https://example.com\\@evil/'],
    ['a tab in the host', 'https://exa\tmple.com/'],
    ['characters outside ASCII', 'https://ⅇxample.com/'],
    ['a full-width dot', 'https://127。0。0。1/'],
    ['an address in one number', 'https://2130706433/'],
    ['an octal address', 'https://0177.0.0.1/'],
    ['a hexadecimal address', 'https://0x7f.1/'],
    ['a short address', 'https://127.1/'],
    ['a dot at the end', 'https://example.com./'],
    ['a zone', 'https://[fe80::1%25eth0]/'],
    ['an IPv6 address in another spelling', 'https://[2606:4700:0::1111]/'],
    ['no host', 'https:///x'],
    ['a port of 0', 'https://example.com:0/'],
    ['a port beyond', 'https://example.com:65536/'],
    ['a port with a zero in front', 'https://example.com:0443/'],
    ['two ports', 'https://example.com:1:2/'],
    ['a way upwards', 'https://example.com/a/../b'],
    ['an encoded way upwards', 'https://example.com/a/%2e%2e/b'],
    ['too much', `https://example.com/${'a'.repeat(2048)}`],
  ])('with %s is refused', (_, destination) => {
    expect(refusal(destination)).toMatchObject({ code: 'usage' })
  })

  it('is never repeated in the error', () => {
    fc.assert(
      fc.property(fc.string({ minLength: 12, maxLength: 60, unit: 'grapheme-ascii' }), (text) => {
        const error = refusal(`https://user:${text}@example.com/`)
        expect(error).toBeInstanceOf(CraikError)
        expect((error as CraikError).message).not.toContain(text)
      }),
    )
  })

  it('has the host, port and path that the platform’s own parser returns, or is refused', () => {
    const odd = fc.string({ unit: fc.constantFrom(...'ab1.:@/\\?#[]%-x0'), maxLength: 24 })
    fc.assert(
      fc.property(odd, (text) => {
        let parsed: ReturnType<typeof parse>
        try {
          parsed = parse(`https://${text}`)
        } catch (error) {
          expect(error).toMatchObject({ code: 'usage' })
          return
        }
        const url = new URL(`https://${text}`)
        expect(url.username + url.password + url.hash).toBe('')
        expect(url.hostname.replace(/^\[(.*)\]$/, '$1')).toBe(parsed.host)
        expect(Number(url.port || 443)).toBe(parsed.port)
        expect(url.pathname + url.search).toBe(parsed.path)
      }),
      { numRuns: 2000 },
    )
  })
})

describe('an s3 destination', () => {
  it('is a host of Amazon, or a path at another store', () => {
    expect(
      parseDestination({ destination: 's3://backups/a/b.tar', region: 'eu-central-1', ...KEYS }),
    ).toMatchObject({ kind: 's3', host: 'backups.s3.eu-central-1.amazonaws.com', path: '/a/b.tar' })
    const endpoint = 'https://minio.example.com:9000'
    expect(parseDestination({ destination: 's3://backups/b.tar', endpoint, ...KEYS })).toMatchObject({
      host: 'minio.example.com',
      port: 9000,
      region: 'us-east-1',
      path: '/backups/b.tar',
    })
  })

  it.each([
    ['no key', 's3://backups', {}],
    ['an empty key', 's3://backups/', {}],
    ['a bucket that is an address', 's3://10.0.0.1/x', {}],
    ['a bucket with an @', 's3://a@b/x', {}],
    ['a way upwards', 's3://backups/../x', {}],
    ['a query', 's3://backups/x?acl', {}],
    ['a plain endpoint', 's3://backups/x', { endpoint: 'http://minio.example.com' }],
    ['an endpoint with a user', 's3://backups/x', { endpoint: 'https://a@minio.example.com' }],
    ['a region that is a host', 's3://backups/x', { region: 'evil.example/' }],
  ])('with %s is refused', (_, destination, more) => {
    expect(refusal(destination, { ...KEYS, ...more })).toMatchObject({ code: 'usage' })
  })

  it('requires the names of its keys, which no other destination accepts', () => {
    expect(refusal('s3://backups/x')).toMatchObject({ code: 'usage' })
    expect(refusal('https://example.com/x', KEYS)).toMatchObject({ code: 'usage' })
  })
})
