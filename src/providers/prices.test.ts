import { expect, test } from 'vitest'
import { priceOf } from './prices.ts'
import { CATALOGUE } from './provider-catalogue.ts'

const NOW_MS = Date.parse('2026-06-01T00:00:00Z')
const openai = { provider: 'openai', metadata: {} } as const
const anthropic = { provider: 'anthropic', metadata: {} } as const
const generic = (base_url: string) => ({ provider: 'chat_completions', metadata: { base_url } }) as const

test('returns whole nano-dollars per million tokens, and the digest of their table', async () => {
  expect(await priceOf(openai, 'gpt-5', NOW_MS)).toEqual({
    price: {
      inputNanoUsdPerMtok: 1_250_000_000,
      cacheReadNanoUsdPerMtok: 125_000_000,
      // The table has no price for cache writes of this model.
      cacheWriteNanoUsdPerMtok: 1_250_000_000,
      outputNanoUsdPerMtok: 10_000_000_000,
    },
    digest: expect.stringMatching(/^sha256:[0-9a-f]{64}$/),
  })
  const again = await priceOf(openai, 'gpt-4o', NOW_MS)
  expect(again?.digest).toBe((await priceOf(openai, 'gpt-5', NOW_MS))?.digest)
  expect((await priceOf(anthropic, 'claude-sonnet-4-5', NOW_MS))?.digest).not.toBe(again?.digest)
})

test('uses the premium tier, unless the input is too small to reach it', async () => {
  const dearest = await priceOf(anthropic, 'claude-sonnet-4-5', NOW_MS)
  expect(dearest?.price).toMatchObject({ inputNanoUsdPerMtok: 6e9, outputNanoUsdPerMtok: 22.5e9 })
  const small = await priceOf(anthropic, 'claude-sonnet-4-5', NOW_MS, 199_999)
  expect(small?.price).toMatchObject({ inputNanoUsdPerMtok: 3e9, outputNanoUsdPerMtok: 15e9 })
})

test.each([
  ['a model that the table does not have', openai, 'no-such-model'],
  ['a model without a price for output', openai, 'text-embedding-3-small'],
  ['an address that the table does not have', generic('https://models.example.test/v1'), 'gpt-5'],
  [
    'a provider of one family at an unknown address',
    { ...openai, metadata: { base_url: 'https://proxy.example.test/v1' } },
    'gpt-5',
  ],
  ['a family that nobody sells', { provider: 'fixture', metadata: {} } as const, 'fixture-1'],
  ['no address at all', { provider: 'chat_completions', metadata: {} } as const, 'gpt-5'],
])('has no price for %s', async (_, record, model) => {
  expect(await priceOf(record, model, NOW_MS)).toBeNull()
})

test('finds the table of a generic endpoint by its address', async () => {
  expect(await priceOf(generic('https://api.deepseek.com/v1'), 'deepseek-chat', NOW_MS)).not.toBeNull()
})

test('has a price for the default model of every provider that bills by the token', async () => {
  for (const record of CATALOGUE.filter(({ metadata }) => metadata.billing === 'metered')) {
    const priced = await priceOf(record, record.metadata.default_model as string, NOW_MS)
    expect(priced?.price.outputNanoUsdPerMtok, record.id).toBeGreaterThan(0)
  }
})
