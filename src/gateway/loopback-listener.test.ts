import type { IncomingMessage } from 'node:http'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { createTokenCheck } from './loopback-listener.ts'

const TOKEN = 'craik-0123456789abcdef'
const HOST = '127.0.0.1:4000'
const check = createTokenCheck(TOKEN, 4000)

function statusOf(url: string, headers: Record<string, string>, method = 'POST') {
  return check({ method, url, headers: { host: HOST, ...headers } } as unknown as IncomingMessage)?.status
}

it.each([
  ['/v1/messages', { 'x-api-key': TOKEN }],
  ['/v1/messages', { authorization: `Bearer ${TOKEN}` }],
  ['/v1beta/models', { 'x-goog-api-key': TOKEN }],
  [`/v1beta/models?key=${TOKEN}`, {}],
  ['/v1/models', { authorization: `bearer ${TOKEN}`, host: 'LOCALHOST:4000' }],
  ['http://example.org/', { 'proxy-authorization': `Bearer ${TOKEN}`, host: 'example.org' }],
  [
    'http://example.org/',
    { 'proxy-authorization': `Basic ${btoa(`any:${TOKEN}`)}`, authorization: 'theirs' },
  ],
])('%s is accepted with %j', (url, headers) => {
  expect(statusOf(url, headers as Record<string, string>)).toBeUndefined()
})

it.each([
  [401, '/v1/messages', {}],
  [401, '/v1/messages', { 'x-api-key': `${TOKEN}0` }],
  [401, '/v1/messages', { 'x-api-key': TOKEN, authorization: 'Bearer theirs' }],
  [401, '/v1/messages', { 'proxy-authorization': `Bearer ${TOKEN}` }],
  [403, '/v1/messages', { 'x-api-key': TOKEN, host: 'rebound.example:4000' }],
  [403, '/v1/messages', { 'x-api-key': TOKEN, host: '127.0.0.1' }],
  [403, '/v1/messages', { 'x-api-key': TOKEN, host: '127.0.0.1:4001' }],
  [407, 'http://example.org/', { authorization: `Bearer ${TOKEN}` }],
  [407, 'http://127.0.0.1:4000/v1/messages', { 'x-api-key': TOKEN }],
  [407, '*', { 'x-api-key': TOKEN }],
])('%i for %s with %j', (status, url, headers) => {
  expect(statusOf(url, headers as Record<string, string>)).toBe(status)
})

it('only the token is accepted, whatever a client sends', () => {
  const header = fc.constantFrom('authorization', 'x-api-key', 'x-goog-api-key', 'proxy-authorization')
  const value = fc.oneof(
    fc.string(),
    fc.constantFrom('Bearer ', 'Basic Og==', TOKEN.slice(0, -1), ` ${TOKEN}x`),
  )
  const url = fc.constantFrom('/v1/messages', `/?key=${TOKEN}x`, 'http://example.org/', 'example.org:443')
  fc.assert(
    fc.property(
      fc.dictionary(header, value),
      url,
      fc.constantFrom('GET', 'CONNECT'),
      (headers, path, method) => {
        expect(statusOf(path, headers, method)).toBeDefined()
      },
    ),
  )
})
