import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { PRESETS } from './egress-presets.ts'
import {
  type EgressRequest,
  fittingRules,
  parsePattern,
  parseTyped,
  type RuleTerms,
  ruleTerms,
} from './rules.ts'
import { canonicalPath, isWithin, parsePlainUrl } from './url-paths.ts'

const rule = (changes: Partial<RuleTerms>): RuleTerms =>
  ruleTerms.parse({
    id: 'egr_1',
    effect: 'allow',
    hosts: ['allowed.example'],
    ports: [443],
    methods: null,
    path: null,
    ...changes,
  })
const egressRequest = (changes: Partial<EgressRequest> = {}): EgressRequest => ({
  host: 'allowed.example',
  form: 'name',
  port: 443,
  protocol: 'connect',
  ...changes,
})
const fits = (changes: Partial<RuleTerms>, what: Partial<EgressRequest>) =>
  fittingRules([rule(changes)], egressRequest(what)).length === 1

describe('a rule', () => {
  it.each([
    [{}, {}, true],
    [{}, { host: 'evil-allowed.example' }, false],
    [{}, { host: 'sub.allowed.example' }, false],
    [{}, { host: 'allowed.example.evil.example' }, false],
    [{}, { port: 80 }, false],
    [{ hosts: ['*.allowed.example'] }, {}, false],
    [{ hosts: ['*.allowed.example'] }, { host: 'a.allowed.example' }, true],
    [{ hosts: ['*.allowed.example'] }, { host: 'a.b.allowed.example' }, true],
    [{ hosts: ['*.allowed.example'] }, { host: 'evilallowed.example' }, false],
    [{ hosts: ['*.allowed.example'] }, { host: 'a.allowed.example.evil.example' }, false],
    [{ hosts: ['93.184.216.34'] }, { host: '93.184.216.34', form: 'ipv4' }, true],
    [{ hosts: ['[2606:4700::1111]'] }, { host: '2606:4700::1111', form: 'ipv6' }, true],
    [{ ports: [80] }, { port: 80, protocol: 'http', method: 'DELETE', path: '/x' }, true],
    [{ ports: [80], methods: ['GET'] }, { port: 80, protocol: 'http', method: 'GET' }, true],
    [{ ports: [80], methods: ['GET'] }, { port: 80, protocol: 'http', method: 'PUT' }, false],
    [{ ports: [80], methods: ['GET'] }, { port: 80 }, false],
    [{ ports: [80], path: '/bucket' }, { port: 80 }, false],
    [
      { ports: [80], path: '/bucket' },
      { port: 80, protocol: 'http', method: 'GET', path: '/bucket/a' },
      true,
    ],
    [{ ports: [80], path: '/bucket' }, { port: 80, protocol: 'http', method: 'GET', path: '/bucket' }, true],
    [
      { ports: [80], path: '/bucket' },
      { port: 80, protocol: 'http', method: 'GET', path: '/bucket2' },
      false,
    ],
    [{ ports: [80], path: '/bucket' }, { port: 80, protocol: 'http', method: 'GET' }, false],
  ] as [Partial<RuleTerms>, Partial<EgressRequest>, boolean][])('%j for %j: %j', (terms, what, expected) =>
    expect(fits(terms, what)).toBe(expected),
  )

  it('that denies overrides all that allow', () => {
    const rules = [rule({}), rule({ id: 'egr_2', effect: 'deny', ports: null })]
    expect(fittingRules(rules, egressRequest()).map(({ effect }) => effect)).toEqual(['deny'])
  })

  it('cannot cover names that anyone can register', () => {
    for (const host of [
      '*',
      '*.',
      '*.com',
      'com',
      'localhost',
      '*.co.uk',
      '*.com.au',
      '*.1.1.1.1',
      '*.*.example.com',
    ])
      expect(parsePattern(host)).toBeUndefined()
    for (const host of ['a*.example.com', 'x.*.example.com', '*example.com'])
      expect(() => parseTyped(host)).toThrow('cannot be allowed')
  })

  it('cannot name an address that is not public, in any notation', () => {
    for (const host of [
      '127.0.0.1',
      '0x7f.1',
      '2130706433',
      '169.254.169.254',
      '[::1]',
      '[::ffff:10.0.0.1]',
      '[fd00:ec2::254]',
    ])
      expect(() => parseTyped(host)).toThrow('its address is')
  })

  it('cannot limit paths inside TLS', () => {
    expect(() => parseTyped('store.example.com/bucket')).toThrow('inside TLS')
    expect(() => parseTyped('store.example.com', ['GET'])).toThrow('inside TLS')
    expect(parseTyped('store.example.com:80/bucket', ['get'])).toEqual({
      hosts: ['store.example.com'],
      ports: [80],
      methods: ['GET'],
      path: '/bucket',
    })
  })

  it('is refused when it is a URL, or has an invalid port', () => {
    expect(() => parseTyped('https://example.com')).toThrow('HOST[:PORT][/PATH]')
    expect(() => parseTyped('example.com:http')).toThrow('port')
  })
})

describe('presets', () => {
  it.each(Object.entries(PRESETS))('%s names only valid hosts', (_, { hosts, ports }) => {
    expect(() => rule({ hosts: [...hosts], ports: [...ports] })).not.toThrow()
  })
})

describe('paths of plain requests', () => {
  it.each([
    ['/a/b', '/a/b'],
    ['/', '/'],
    ['/%61/b', '/a/b'],
    ['/a//b', '/a//b'],
    ['/a/../b', undefined],
    ['/a/./b', undefined],
    ['/a/..', undefined],
    ['/a/%2e%2e/b', undefined],
    ['/a/.%2E/b', undefined],
    ['/a/..;/b', undefined],
    ['/a/..;x=1/b', undefined],
    ['/a%2fb', undefined],
    ['/a%5cb', undefined],
    ['/a\\b', undefined],
    ['/a%00', undefined],
    ['/a%252e%252e/b', undefined],
    ['/a%zz', undefined],
    ['/a%c0%ae%c0%ae/b', undefined],
    ['a', undefined],
  ])('%j is matched as %j', (path, expected) => expect(canonicalPath(path)).toBe(expected))

  it('never match outside their prefix', () => {
    const part = fc.constantFrom(
      'a',
      'bucket',
      '..',
      '.',
      '',
      '%2e%2e',
      '%2f',
      ';',
      '..;',
      '\\',
      '%5c..',
      '%25',
      'x',
    )
    fc.assert(
      fc.property(fc.array(part, { maxLength: 6 }), (parts) => {
        const path = canonicalPath(`/bucket/${parts.join('/')}`)
        if (path === undefined) return
        expect(isWithin('/bucket', new URL(`http://x${path}`).pathname)).toBe(true)
      }),
    )
  })

  it.each([
    'https://a.example/',
    'ftp://a.example/',
    '/a',
    'http://a.example#x',
    'http:a.example',
    'http://u@a.example/',
    '*',
  ])('%j is not a target of a plain request', (url) => expect(parsePlainUrl(url)).toHaveProperty('problem'))
})
