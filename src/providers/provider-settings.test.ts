/** Tests that local routing is disabled until a server has responded, and that every change has a receipt. */
import { beforeEach, describe, expect, it } from 'vitest'
import { type InProcessStore, inProcessStore } from '../../test/in-process-store.ts'
import { enableProvider } from './local/enable.ts'
import { chooseModel, localBaseUrl } from './local/local-address.ts'
import { findLocalPreset } from './local/local-presets.ts'
import { jsonAnswer, respondWithModels, startModelServer } from './local/model-server.fixture.ts'
import { disableProvider, enableProcedure } from './provider-settings.ts'

const OPERATOR = 'local-user:test'
const PRESET = findLocalPreset('ollama')
const clock = { nowMs: () => Date.parse('2026-11-15T09:00:00Z') }
let store: InProcessStore

beforeEach(() => {
  store = inProcessStore(clock)
})

describe('enabling', () => {
  it('stores the address and the model, with a receipt in the same transaction', async () => {
    await using server = await startModelServer(respondWithModels('llama3.2:latest', 'qwen3:8b'))
    const { setting, receipt } = await enable(server.baseUrl)
    expect(setting).toEqual({
      providerId: 'provider_local_ollama',
      enabled: true,
      baseUrl: server.baseUrl,
      model: 'llama3.2:latest',
      updatedAtMs: clock.nowMs(),
    })
    expect(await store.tables.providerSettings.get('provider_local_ollama')).toEqual(setting)
    const [body] = await store.bodies()
    expect(body).toMatchObject({
      id: receipt.id,
      kind: 'environment_decision',
      status: 'passed',
      capability: 'provider.write',
      operation: 'enable',
      target: 'provider_local_ollama',
      links: { provider_id: 'provider_local_ollama' },
      metadata: {
        host: '127.0.0.1',
        port: server.port,
        model: 'llama3.2:latest',
        model_count: 2,
        health: 'ok',
      },
    })
    expect(body?.redacted_fields).toBeUndefined()
  })

  it('uses the server’s first model when it does not offer the wanted one', async () => {
    await using server = await startModelServer(respondWithModels('qwen3:8b', 'mistral:7b'))
    expect((await enable(server.baseUrl)).setting.model).toBe('mistral:7b')
    expect((await enable(server.baseUrl, 'qwen3:8b')).setting.model).toBe('qwen3:8b')
  })

  it('uses the wanted model when the server lists none', async () => {
    await using server = await startModelServer(respondWithModels())
    expect((await enable(server.baseUrl)).setting.model).toBe('llama3.2')
  })

  it('fails for a model that the server does not offer', async () => {
    await using server = await startModelServer(respondWithModels('qwen3:8b'))
    await expect(enable(server.baseUrl, 'gpt-5')).rejects.toMatchObject({
      code: 'unavailable',
      message: expect.stringContaining('qwen3:8b'),
    })
    expect(await store.tables.providerSettings.list()).toEqual([])
  })

  it('fails unless the server is healthy, writes a receipt and does not change the setting', async () => {
    await using good = await startModelServer(respondWithModels('m'))
    const before = (await enable(good.baseUrl)).setting
    await using bad = await startModelServer(jsonAnswer({ nonsense: true }))
    await expect(enable(bad.baseUrl)).rejects.toMatchObject({ code: 'unavailable' })
    expect(await store.tables.providerSettings.list()).toEqual([before])
    expect((await store.bodies()).at(-1)).toMatchObject({
      kind: 'environment_decision',
      status: 'blocked',
      operation: 'enable',
      metadata: { health: 'unexpected' },
    })
  })

  it('accepts only loopback, also in direct calls to the store', async () => {
    const input = { operator: OPERATOR, providerId: 'provider_x', model: 'm', modelCount: 1 }
    for (const baseUrl of ['http://192.0.2.1/v1', 'http://u:p@localhost/v1'])
      await expect(store.write(enableProcedure, { ...input, baseUrl })).rejects.toMatchObject({
        code: 'usage',
      })
    expect(await store.tables.providerSettings.list()).toEqual([])
    expect(await store.bodies()).toEqual([])
  })
})

describe('disabling', () => {
  it('disables the provider, with a receipt', async () => {
    await using server = await startModelServer(respondWithModels('m'), '::1')
    await enable(server.baseUrl)
    const { setting, receipt } = await disableProvider(store, OPERATOR, PRESET.provider_id)
    expect(setting.enabled).toBe(false)
    expect((await store.bodies()).at(-1)).toMatchObject({
      id: receipt.id,
      operation: 'disable',
      status: 'passed',
      metadata: { host: 'ipv6-loopback', model: 'm' },
    })
  })

  it('fails with a conflict when the provider is not enabled', async () => {
    await expect(disableProvider(store, OPERATOR, PRESET.provider_id)).rejects.toMatchObject({
      code: 'conflict',
    })
  })
})

describe('the address of a local server', () => {
  const setting = {
    providerId: PRESET.provider_id,
    enabled: true,
    baseUrl: 'http://localhost:3/v1',
    model: 'm',
    updatedAtMs: 0,
  }
  const environment = { OLLAMA_BASE_URL: 'http://localhost:2/v1/', OLLAMA_MODEL: 'qwen3' }

  it('comes from the command line, else its variable, else its setting, else the preset', () => {
    const typed = 'http://localhost:1/v1'
    expect(localBaseUrl(PRESET, { baseUrl: typed, environment, setting })).toBe(typed)
    expect(localBaseUrl(PRESET, { environment, setting })).toBe('http://localhost:2/v1')
    expect(localBaseUrl(PRESET, { environment: { OLLAMA_BASE_URL: '' }, setting })).toBe(setting.baseUrl)
    expect(localBaseUrl(PRESET, { environment: {}, setting: undefined })).toBe('http://localhost:11434/v1')
    expect([chooseModel(PRESET, environment), chooseModel(PRESET, {})]).toEqual(['qwen3', 'llama3.2'])
  })

  it('is refused with the name of its source', () => {
    const remote = { OLLAMA_BASE_URL: 'http://example.com/v1' }
    expect(() => localBaseUrl(PRESET, { environment: remote, setting })).toThrow(
      /invalid base URL in OLLAMA_BASE_URL/,
    )
  })
})

function enable(baseUrl: string, model?: string) {
  return enableProvider(store, store.log, PRESET, {
    baseUrl,
    model,
    wantedModel: PRESET.default_model,
    operator: OPERATOR,
    timeoutMs: 5000,
    signal: new AbortController().signal,
    clock,
  })
}
