import { isIPv4, isIPv6 } from 'node:net'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  formatDestination,
  isNameProblem,
  parseAuthority,
  parseHost,
  parseHostAndPort,
} from './egress-destination.ts'

const canonical = (text: string) => {
  const found = parseAuthority(text)
  return isNameProblem(found) ? undefined : formatDestination(found)
}

describe('the authority of a request', () => {
  it.each([
    ['example.com:443', 'example.com:443'],
    ['EXAMPLE.com:443', 'example.com:443'],
    ['example.com.:443', 'example.com:443'],
    ['a_b._tcp.example.com:8443', 'a_b._tcp.example.com:8443'],
    ['r3---sn.example.com:443', 'r3---sn.example.com:443'],
    ['xn--bcher-kva.example:443', 'xn--bcher-kva.example:443'],
    ['XN--BCHER-KVA.example.:443', 'xn--bcher-kva.example:443'],
    ['127.0.0.1:80', '127.0.0.1:80'],
    ['127.0.0.1.:80', '127.0.0.1:80'],
    ['0x7f.1:80', '127.0.0.1:80'],
    ['017700000001:80', '127.0.0.1:80'],
    ['2130706433:80', '127.0.0.1:80'],
    ['0x7F000001:80', '127.0.0.1:80'],
    ['0177.0.0.1:80', '127.0.0.1:80'],
    ['1.2.3:80', '1.2.0.3:80'],
    ['[::1]:80', '[::1]:80'],
    ['[0:0:0:0:0:0:0:1]:80', '[::1]:80'],
    ['[2606:4700:0::1111]:443', '[2606:4700::1111]:443'],
    ['[::ffff:127.0.0.1]:80', '127.0.0.1:80'],
    ['[::FFFF:7f00:1]:80', '127.0.0.1:80'],
    ['[64:ff9b::7f00:1]:80', '[64:ff9b::7f00:1]:80'],
  ])('%j means %j', (text, meant) => expect(canonical(text)).toBe(meant))

  it.each([
    'evil.example\u0000.allowed.example:443',
    'allowed.example\u0000:443',
    'allowed.example\r\nHost: evil.example:443',
    'allowed.example\t:443',
    ' allowed.example:443',
    'allowed.example :443',
    'user@allowed.example:443',
    'allowed.example@evil.example:443',
    'allowed.example%00.evil.example:443',
    'allowed%2eexample:443',
    'allowed.example..:443',
    '.allowed.example:443',
    'allowed..example:443',
    '-allowed.example:443',
    'allowed-.example:443',
    'allowed.example',
    'allowed.example:',
    'allowed.example:0',
    'allowed.example:0443',
    'allowed.example:65536',
    'allowed.example:+443',
    'allowed.example:4 3',
    'allowed.example:443:443',
    'allowed.example/:443',
    'allowed.example\\.evil.example:443',
    'allowed.example#.evil.example:443',
    'allowed.example?.evil.example:443',
    'allowed,example:443',
    '*.example:443',
    'b\u00fccher.example:443',
    'xn--.example:443',
    'xn--a.example:443',
    'xn--ab-.example:443',
    '1.2.3.256:80',
    '1.2.3.4.5:80',
    'a.0x:80',
    'example.09:80',
    '::1:80',
    '[::1%25eth0]:80',
    '[fe80::1%eth0]:80',
    '[::1:80',
    '[127.0.0.1]:80',
    '[]:80',
    ':443',
    '',
    `${'a'.repeat(64)}.example:443`,
    `${'a.'.repeat(127)}example:443`,
    `${'a'.repeat(5000)}:443`,
  ])('%j is refused', (text) => expect(canonical(text)).toBeUndefined())

  it('is unchanged when it is already canonical', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string({ maxLength: 40 }), hostLike), (text) => {
        const once = canonical(`${text}:443`)
        if (once !== undefined) expect(canonical(once)).toBe(once)
      }),
    )
  })

  it('is parsed to the same destination by a browser’s parser, or refused', () => {
    fc.assert(
      fc.property(fc.oneof(hostLike, fc.webAuthority(), fc.ipV4Extended(), fc.ipV6()), (text) => {
        const found = parseAuthority(`${text.includes(':') && isIPv6(text) ? `[${text}]` : text}`, 443)
        if (isNameProblem(found)) return
        const { hostname } = new URL(`http://${text.includes(':') && isIPv6(text) ? `[${text}]` : text}/`)
        const plain = hostname.replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '')
        if (found.form !== 'ipv4' || isIPv4(plain)) expect(found.host).toBe(plain)
      }),
    )
  })
})

describe('a host as typed by a user', () => {
  it.each([
    ['bücher.example', 'xn--bcher-kva.example'],
    ['BÜCHER.example', 'xn--bcher-kva.example'],
    ['ｅxample.com', 'example.com'],
    ['１２７.0.0.1', '127.0.0.1'],
    ['пример.рф', 'xn--e1afmkfd.xn--p1ai'],
  ])('%s is %s', (text, host) => expect(parseHost(text)).toMatchObject({ host }))

  it.each(['℀.com', 'a b.example', 'a\u200d.example', 'a\u00a0b.example'])('%j is refused', (text) =>
    expect(isNameProblem(parseHostAndPort(text, 443))).toBe(true),
  )
})

const label = fc.string({
  unit: fc.constantFrom(
    ...'abcABC0123456789xX-_.'.split(''),
    'xn--',
    '0x',
    '%',
    '\u0000',
    '@',
    '[',
    ']',
    ':',
    'ü',
  ),
  maxLength: 12,
})
const hostLike = fc.array(label, { minLength: 1, maxLength: 4 }).map((labels) => labels.join('.'))
