import { expect, test } from 'vitest'
import { callScene, PROVIDER } from '../dispatch.fixture.ts'
import { findProvider } from '../load-providers.ts'
import { CATALOGUE } from '../provider-catalogue.ts'
import { findRoute } from './route.ts'

const LIVE = { transport: 'live' } as const
const openai = findProvider(CATALOGUE, PROVIDER.openai)
const ollama = findProvider(CATALOGUE, PROVIDER.ollama)

test('a hosted provider: its own address, by the token, with its secret by name', async () => {
  await using at = await callScene()
  expect(await findRoute(at.place, openai, LIVE)).toMatchObject({
    dialect: 'openai_responses',
    baseUrl: 'https://api.openai.com/v1',
    loopbackOnly: false,
    billing: 'metered',
    secretName: 'OPENAI_API_KEY',
  })
})

test('no variable moves the address that a key goes to', async () => {
  await using at = await callScene()
  const environment = {
    OPENAI_BASE_URL: 'https://collector.example/v1',
    OLLAMA_BASE_URL: 'http://10.0.0.1/v1',
  }
  const place = { ...at.place, environment }
  const record = { ...openai, config_refs: ['OPENAI_BASE_URL'] }
  expect(await findRoute(place, record, LIVE)).toMatchObject({ baseUrl: 'https://api.openai.com/v1' })
  await at.enable(PROVIDER.ollama, 'http://localhost:11434/v1')
  expect(await findRoute(place, ollama, LIVE)).toMatchObject({
    baseUrl: 'http://localhost:11434/v1',
    loopbackOnly: true,
    billing: 'free',
    secretName: undefined,
  })
})

test('the model: the one that is named, else what was enabled, else the variable, else the default', async () => {
  await using at = await callScene()
  const place = { ...at.place, environment: { OPENAI_MODEL: 'gpt-variable', OLLAMA_MODEL: 'variable' } }
  expect(await findRoute(place, openai, { ...LIVE, model: 'gpt-named' })).toMatchObject({
    model: 'gpt-named',
  })
  expect(await findRoute(place, openai, LIVE)).toMatchObject({ model: 'gpt-variable' })
  expect(await findRoute(at.place, openai, LIVE)).toMatchObject({ model: openai.metadata.default_model })
  await at.enable(PROVIDER.ollama, 'http://localhost:11434/v1')
  expect(await findRoute(place, ollama, LIVE)).toMatchObject({ model: 'llama3.2' })
})

test('the fixture transport needs no switching on, has no address, no secret and no price', async () => {
  await using at = await callScene()
  for (const record of [openai, ollama]) {
    expect(await findRoute(at.place, record, { transport: 'fixture' })).toMatchObject({
      dialect: 'fixture',
      baseUrl: undefined,
      billing: 'free',
      secretName: undefined,
    })
  }
})

test('a record of one of the large families may leave its address out', async () => {
  await using at = await callScene()
  const { base_url: _, ...metadata } = openai.metadata
  expect(await findRoute(at.place, { ...openai, metadata }, LIVE)).toMatchObject({
    baseUrl: 'https://api.openai.com/v1',
  })
})

test('a provider of one’s own on loopback is dialled without DNS, whatever its trust boundary', async () => {
  await using at = await callScene()
  const metadata: typeof openai.metadata = { ...openai.metadata }
  metadata.base_url = 'http://localhost:4000/v1'
  expect(await findRoute(at.place, { ...openai, metadata }, LIVE)).toMatchObject({ loopbackOnly: true })
})
