/** Tests which base URLs count as loopback: only exact forms, against every known trick. */
import { BlockList, isIP } from 'node:net'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { CraikError } from '../../errors.ts'
import { type LoopbackRefusal, loopbackRefusal, parseLoopbackUrl } from './loopback.ts'

const LOOPBACK = new BlockList()
LOOPBACK.addSubnet('127.0.0.0', 8, 'ipv4')
LOOPBACK.addAddress('::1', 'ipv6')

describe('accepts', () => {
  it.each([
    ['http://localhost:11434/v1', 'http://localhost:11434/v1', ['127.0.0.1', '::1']],
    ['http://LocalHost:11434/v1/', 'http://localhost:11434/v1', ['127.0.0.1', '::1']],
    ['HTTP://localhost:80', 'http://localhost', ['127.0.0.1', '::1']],
    ['https://localhost', 'https://localhost', ['127.0.0.1', '::1']],
    ['http://127.0.0.1:8000', 'http://127.0.0.1:8000', ['127.0.0.1']],
    ['http://127.255.3.9:8000/a/b', 'http://127.255.3.9:8000/a/b', ['127.255.3.9']],
    ['http://[::1]:1234/v1', 'http://[::1]:1234/v1', ['::1']],
  ])('%s', (text, baseUrl, addresses) => {
    expect(parseLoopbackUrl(text)).toMatchObject({ baseUrl, addresses })
  })
})

describe('refuses, each with its own reason,', () => {
  const refused: readonly (readonly [string, LoopbackRefusal])[] = [
    ['http://8.8.8.8/v1', 'other_address'],
    [`http://127.0.0.1:8000/sk-ant-api03-${'a1B2'.repeat(10)}/v1`, 'secret'],
    [`http://localhost/v1/ghp_${'a1B2'.repeat(9)}`, 'secret'],
    ['http://example.com/v1', 'name'],
    ['http://metadata.google.internal/v1', 'metadata_service'],
    ['http://metadata/v1', 'metadata_service'],
    ['http://169.254.169.254/v1', 'link_local'],
    ['http://[fe80::1]/v1', 'link_local'],
    ['http://[fe80::1%25eth0]/v1', 'zone_id'],
    ['http://[::1%lo]/v1', 'zone_id'],
    ['http://10.0.0.1/v1', 'private_network'],
    ['http://172.16.0.1/v1', 'private_network'],
    ['http://192.168.1.1/v1', 'private_network'],
    ['http://100.64.0.1/v1', 'private_network'],
    ['http://[fd00::1]/v1', 'private_network'],
    ['http://[2001:4860:4860::8888]/v1', 'other_address'],
    ['http://user:pw@localhost/v1', 'user_info'],
    ['http://user@localhost/v1', 'user_info'],
    ['http://@localhost/v1', 'user_info'],
    ['http://:@localhost/v1', 'user_info'],
    ['http://localhost@evil.example/v1', 'user_info'],
    ['http://localhost:80@evil.example/v1', 'user_info'],
    ['http://localhost.evil.example/v1', 'looks_like_localhost'],
    ['http://localhost.localdomain/v1', 'looks_like_localhost'],
    ['http://foo.localhost/v1', 'looks_like_localhost'],
    ['http://notlocalhost/v1', 'looks_like_localhost'],
    ['http://ip6-localhost/v1', 'looks_like_localhost'],
    ['http://localhost./v1', 'trailing_dot'],
    ['http://127.0.0.1./v1', 'trailing_dot'],
    ['http://127.0.0.1.nip.io/v1', 'name'],
    ['http://2130706433/v1', 'odd_spelling'],
    ['http://0x7f000001/v1', 'odd_spelling'],
    ['http://0x7f.1/v1', 'odd_spelling'],
    ['http://0X7F.0.0.0x1/v1', 'odd_spelling'],
    ['http://127.1/v1', 'odd_spelling'],
    ['http://127.0.1/v1', 'odd_spelling'],
    ['http://0177.0.0.1/v1', 'odd_spelling'],
    ['http://127.0.0.01/v1', 'odd_spelling'],
    ['http://127.0.0.256/v1', 'odd_spelling'],
    ['http://127.0.0.1.0/v1', 'odd_spelling'],
    ['http://0x/v1', 'odd_spelling'],
    ['http://[0:0:0:0:0:0:0:1]/v1', 'odd_spelling'],
    ['http://[::0001]/v1', 'odd_spelling'],
    ['http://[0::1]/v1', 'odd_spelling'],
    ['http://[::1/v1', 'odd_spelling'],
    ['http://::1/v1', 'odd_spelling'],
    ['http://[::1]x/v1', 'odd_spelling'],
    ['http://[v1.x]/v1', 'odd_spelling'],
    ['http://[::ffff:127.0.0.1]/v1', 'ipv4_in_ipv6'],
    ['http://[::ffff:7f00:1]/v1', 'ipv4_in_ipv6'],
    ['http://[::127.0.0.1]/v1', 'ipv4_in_ipv6'],
    ['http://[64:ff9b::7f00:1]/v1', 'ipv4_in_ipv6'],
    ['http://[2002:7f00:1::]/v1', 'ipv4_in_ipv6'],
    ['http://0.0.0.0/v1', 'unspecified'],
    ['http://0/v1', 'odd_spelling'],
    ['http://[::]/v1', 'unspecified'],
    ['http://%31%32%37.0.0.1/v1', 'percent_encoding'],
    ['http://local%68ost/v1', 'percent_encoding'],
    ['http://１２７.0.0.1/v1', 'not_ascii'],
    ['http://127。0。0。1/v1', 'not_ascii'],
    ['http://ⓛocalhost/v1', 'not_ascii'],
    ['http://localhost\t/v1', 'control_character'],
    ['http://local\nhost/v1', 'control_character'],
    ['http://localhost\0.evil.example/v1', 'control_character'],
    [' http://localhost/v1', 'control_character'],
    ['http://localhost /v1', 'control_character'],
    ['http://localhost\\@evil.example/v1', 'backslash'],
    ['http:\\\\localhost/v1', 'backslash'],
    ['http:/localhost/v1', 'not_http'],
    ['http:localhost/v1', 'not_http'],
    ['//localhost/v1', 'not_http'],
    ['localhost:11434/v1', 'not_http'],
    ['file:///etc/passwd', 'not_http'],
    ['ftp://localhost/v1', 'not_http'],
    ['unix:///run/x.sock', 'not_http'],
    ['', 'not_http'],
    ['http:///v1', 'no_host'],
    ['http://:80/v1', 'no_host'],
    ['http://[]/v1', 'no_host'],
    ['http://localhost:/v1', 'port'],
    ['http://localhost:0/v1', 'port'],
    ['http://localhost:080/v1', 'port'],
    ['http://localhost:65536/v1', 'port'],
    ['http://localhost:1e3/v1', 'port'],
    ['http://localhost:80:90/v1', 'port'],
    ['http://localhost/v1?x=1', 'query_or_fragment'],
    ['http://localhost?@evil.example', 'query_or_fragment'],
    ['http://localhost#@evil.example', 'query_or_fragment'],
    ['http://localhost/../v1', 'path'],
    ['http://localhost/v1/.', 'path'],
    ['http://localhost/v1//', 'path'],
    ['http://localhost//evil.example/v1', 'path'],
    ['http://localhost/%2e%2e/v1', 'path'],
    [`http://localhost/${'a'.repeat(500)}`, 'too_long'],
  ]

  it.each(refused)('%j', (text, reason) => {
    expect(reasonFor(text)).toBe(reason)
    expect(loopbackRefusal(text)).toEqual(expect.any(String))
  })

  it('without repeating the URL', () => {
    const secret = 'hunter2hunter2'
    try {
      parseLoopbackUrl(`http://me:${secret}@localhost/v1`)
      expect.unreachable()
    } catch (error) {
      const { message, hint, details } = error as CraikError
      expect(JSON.stringify([message, hint, details])).not.toContain(secret)
    }
  })
})

describe('accepts nothing outside loopback:', () => {
  /** An accepted URL must be loopback for Craik, and also for the URL parser of the HTTP client. */
  const mustBeLoopback = (text: string): void => {
    if (reasonFor(text) !== undefined) return
    const { addresses, baseUrl } = parseLoopbackUrl(text)
    for (const address of addresses)
      expect(LOOPBACK.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')).toBe(true)
    for (const url of [new URL(text), new URL(baseUrl)]) {
      expect(['localhost', '[::1]', ...addresses]).toContain(url.hostname)
      expect(url.username + url.password + url.search + url.hash).toBe('')
    }
    expect(parseLoopbackUrl(baseUrl).baseUrl).toBe(baseUrl)
  }

  it('for any text', () => {
    fc.assert(fc.property(fc.string({ unit: 'binary' }), mustBeLoopback))
    fc.assert(fc.property(fc.webUrl({ withQueryParameters: true, withFragments: true }), mustBeLoopback))
  })

  it('for parts of addresses and of tricks in any order', () => {
    const pieces = [
      'localhost',
      '127.0.0.1',
      '[::1]',
      '127',
      '0x7f',
      '0',
      '1',
      '.',
      ':',
      '@',
      '/',
      '\\',
      '#',
      '?',
      '%',
      '[',
      ']',
      '::',
      'ffff:',
      '8.8.8.8',
      'evil.example',
      '%00',
      '\t',
      '\n',
      '。',
      '１',
      'user',
      ':80',
    ]
    const host = fc.array(fc.constantFrom(...pieces), { maxLength: 6 }).map((some) => some.join(''))
    const text = fc.tuple(fc.constantFrom('http://', 'https://', 'http:', 'HTTP://', '//'), host)
    fc.assert(
      fc.property(text, ([scheme, rest]) => mustBeLoopback(scheme + rest)),
      { numRuns: 3000 },
    )
  })

  it('for any form of any IPv4 address, and accepts only the plain form of 127.0.0.0/8', () => {
    const formatNumber = (n: number, base: string): string =>
      ({ x: `0x${n.toString(16)}`, o: `0${n.toString(8)}`, d: String(n), z: `00${n}` })[base]!
    const octet = fc.oneof(fc.constant(127), fc.integer({ min: 0, max: 255 }))
    const bases = fc.tuple(...Array.from({ length: 4 }, () => fc.constantFrom('x', 'o', 'd', 'z')))
    fc.assert(
      fc.property(
        fc.tuple(octet, octet, octet, octet),
        bases,
        fc.integer({ min: 1, max: 4 }),
        (bytes, base, parts) => {
          const joined = bytes.slice(parts - 1).reduce((sum, byte) => sum * 256 + byte, 0)
          const numbers = [...bytes.slice(0, parts - 1), joined]
          const host = numbers.map((n, i) => formatNumber(n, base[i]!)).join('.')
          const plain = host === bytes.join('.')
          expect(reasonFor(`http://${host}:8000/v1`) === undefined).toBe(plain && bytes[0] === 127)
        },
      ),
      { numRuns: 2000 },
    )
  })

  it('for any form of any IPv6 address, and accepts only ::1', () => {
    fc.assert(
      fc.property(fc.ipV6(), (address) => {
        expect(reasonFor(`http://[${address}]/v1`) === undefined).toBe(address === '::1')
      }),
    )
  })
})

function reasonFor(text: string): unknown {
  try {
    parseLoopbackUrl(text)
    return undefined
  } catch (error) {
    expect(error).toBeInstanceOf(CraikError)
    return (error as CraikError).details?.reason
  }
}
