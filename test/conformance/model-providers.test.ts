/** Provider metadata, selection and local presets, as an operator uses them: on the command line, with real servers. */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { calcPrice } from '@pydantic/genai-prices'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  jsonAnswer,
  respondEndlessly,
  respondSlowly,
  respondWithModels,
  startModelServer,
} from '../../src/providers/local/model-server.fixture.ts'
import { CATALOGUE } from '../../src/providers/provider-catalogue.ts'
import { OWN_RECORD } from '../../src/providers/provider-record.fixture.ts'
import { type ProviderRecord, providerRecord } from '../../src/providers/provider-record.ts'
import { TestHome } from '../craik.ts'

let home: TestHome
beforeEach(() => {
  home = new TestHome()
})
afterEach(() => home[Symbol.dispose]())

describe('provider metadata', () => {
  it('keeps config and secret references apart (1)', async () => {
    for (const { config_refs, secret_ref_names } of await list())
      expect(config_refs.filter((name) => secret_ref_names.includes(name))).toEqual([])
    const mixed = { ...OWN_RECORD, config_refs: ['TEAM_NAME'], secret_ref_names: ['TEAM_NAME'] }
    expect(providerRecord.safeParse(mixed).success).toBe(false)
  })

  it.each([
    ['secret-like metadata (2)', { metadata: { ...OWN_RECORD.metadata, api_key: 'x' } }, 'metadata.api_key'],
    ['an undeclared mode (3)', { modes: ['embedding'] }, 'capabilities.0.mode'],
    ['the id of another (5)', { id: 'provider_anthropic' }, 'id'],
  ])('refuses %s and names the file and the field', async (_, change, field) => {
    configure('own.json', { ...OWN_RECORD, ...change })
    for (const verb of [['list'], ['show', 'provider_openai'], ['select', 'provider_openai']]) {
      const { code, stdout, stderr } = await home.run(['provider', ...verb])
      expect([code, stdout]).toEqual([78, ''])
      expect(stderr).toMatch(new RegExp(`^craik: config/providers/own\\.json: ${field}: `))
    }
  })

  it('is listed by id with sorted keys, identical each time (4)', async () => {
    configure('own.json', OWN_RECORD)
    const { stdout } = await home.run(['provider', 'list'])
    const ids = (JSON.parse(stdout) as ProviderRecord[]).map(({ id }) => id)
    expect(ids).toEqual(ids.toSorted())
    expect(ids).toContain('provider_team_gateway')
    expect(stdout).toBe(`${JSON.stringify(sortKeysDeep(JSON.parse(stdout)), null, 2)}\n`)
    expect((await home.run(['provider', 'list'])).stdout).toBe(stdout)
  })

  it('fails with a clear error for an unknown id (6)', async () => {
    for (const verb of ['show', 'select']) {
      const { code, stdout, stderr } = await home.run(['provider', verb, 'provider_opneai'])
      expect([code, stdout]).toEqual([3, ''])
      expect(stderr).toMatch(
        /^craik: unknown model provider: provider_opneai\n {2}did you mean provider_openai/,
      )
    }
  })

  it('has the documented ids, default models with a price, and secret names (7)', async () => {
    const records = await list()
    expect(records.map(({ id }) => id)).toEqual([
      'provider_anthropic',
      'provider_anthropic_messages',
      'provider_fixture_local',
      'provider_gemini',
      'provider_kimi',
      'provider_local_lm_studio',
      'provider_local_ollama',
      'provider_local_openai_compatible',
      'provider_local_vllm',
      'provider_openai',
      'provider_openai_chat',
      'provider_openai_responses',
      'provider_openrouter',
    ])
    const secrets = { anthropic: 'ANTHROPIC_API_KEY', openai: 'OPENAI_API_KEY', gemini: 'GEMINI_API_KEY' }
    const priced = { anthropic: 'anthropic', openai: 'openai', gemini: 'google' }
    for (const { provider, secret_ref_names, metadata } of records) {
      if (!Object.hasOwn(secrets, provider)) continue
      const family = provider as keyof typeof secrets
      expect(secret_ref_names).toEqual([secrets[family]])
      const usage = { input_tokens: 1000, output_tokens: 1000 }
      const price = calcPrice(usage, metadata.default_model!, { providerId: priced[family] })
      expect(price?.total_price, metadata.default_model).toBeGreaterThan(0)
    }
  })

  it('of a local provider names no secret, and derives the ids of its budget and quota (8)', async () => {
    const local = (await list()).filter(({ trust_boundary }) => trust_boundary === 'local')
    expect(local).toHaveLength(5)
    for (const { id, secret_ref_names, budget_ref, quota_ref } of local)
      expect([secret_ref_names, budget_ref, quota_ref]).toEqual([[], `budget_${id}`, `quota_${id}`])
  })

  it('requires a grant for every capability', async () => {
    for (const { capabilities, docs } of await list()) {
      expect(capabilities.every(({ grant_required }) => grant_required)).toBe(true)
      expect(docs.length).toBeGreaterThan(0)
    }
  })
})

describe('selection', () => {
  const SELECT = ['provider', 'select', 'provider_openai', '--mode', 'runner']

  it('prints the policy and the receipts, redacted (9)', async () => {
    const links = ['--policy-envelope-id', 'policy_local', '--receipt-id', 'rcpt_a', '--receipt-id', 'rcpt_b']
    expect(await home.json([...SELECT, ...links])).toEqual({
      provider_id: 'provider_openai',
      provider: 'openai',
      name: 'OpenAI',
      mode: 'runner',
      trust_boundary: 'hosted',
      runtime_path: 'adapters/openai-responses',
      config_refs: ['OPENAI_MODEL'],
      secret_ref_names: ['OPENAI_API_KEY'],
      budget_ref: 'budget_provider_openai',
      quota_ref: 'quota_provider_openai',
      policy_envelope_id: 'policy_local',
      receipt_ids: ['rcpt_a', 'rcpt_b'],
      redacted: true,
    })
  })

  it('lists the supported modes when the requested mode is not supported', async () => {
    const { code, stdout, stderr } = await home.run([...SELECT.slice(0, 3), '--mode', 'embedding'])
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toMatch(
      /^craik: provider_openai does not support 'embedding' \(supported: chat, runner\)\n/,
    )
  })

  it('accepts only references, never a secret', async () => {
    const token = `sk-ant-api03-${'aB3dE5gH7jK9mN1pQ3sT'.repeat(4)}`
    for (const provided of [token, 'two words', '', 'x'.repeat(201)])
      for (const flag of ['--policy-envelope-id', '--receipt-id']) {
        const { code, stdout, stderr } = await home.run([...SELECT, flag, provided])
        expect([code, stdout]).toEqual([2, ''])
        expect(stderr).not.toContain(token.slice(0, 30))
      }
  })

  it('opens no connection, reads no secret, creates no grant and writes nothing', async () => {
    const marker = home.path('the-secret-was-read')
    await home.json(['command', 'register', 'read-key', '--', 'touch', marker])
    await home.json(['secret', 'bind', 'OPENAI_API_KEY', '--command', 'read-key'])
    const before = stateOf(home)
    const { code, stderr } = await home.run([...SELECT, '--policy-envelope-id', 'policy_local'], {
      nodeArguments: ['--import', TRAP],
    })
    expect([code, stderr]).toEqual([0, ''])
    expect(existsSync(marker)).toBe(false)
    expect(stateOf(home)).toEqual(before)
    expect(await home.json(['grant', 'list'])).toEqual([])

    // Both traps work: a command that connects, or reads the secret, triggers them.
    const dialling = await home.run(
      ['provider', 'local-health', 'ollama', '--base-url', 'http://127.0.0.1:9/v1'],
      {
        nodeArguments: ['--import', TRAP],
      },
    )
    expect(dialling.stderr).toContain('TRAP: connect')
    await home.run(['secret', 'check', 'OPENAI_API_KEY'])
    expect(existsSync(marker)).toBe(true)
  })

  it('does not create a missing Craik home', async () => {
    for (const verb of [
      ['list'],
      ['local-presets'],
      ['show', 'provider_gemini'],
      ['select', 'provider_gemini'],
    ])
      await home.json(['provider', ...verb])
    await home.json(['provider', 'local-health', 'vllm', '--base-url', 'http://127.0.0.1:9/v1'])
    expect(existsSync(home.home)).toBe(false)
  })
})

describe('local presets', () => {
  it('are listed with their providers', async () => {
    const presets = await home.json<{ id: string; provider_id: string; provider: ProviderRecord }[]>([
      'provider',
      'local-presets',
    ])
    expect(presets.map(({ id }) => id)).toEqual(['lm-studio', 'ollama', 'openai-compatible', 'vllm'])
    for (const { provider_id, provider } of presets)
      expect(provider).toEqual(CATALOGUE.find(({ id }) => id === provider_id))
  })

  it.each(['ollama', 'provider_local_ollama'])('%s requests /v1/models, not /v1/v1/models', async (name) => {
    await using server = await startModelServer((response, request) => {
      if (request.url === '/v1/models') respondWithModels('llama3.2:latest')(response, request)
      else response.writeHead(404).end()
    })
    expect(await health(name, server.baseUrl)).toMatchObject({
      preset_id: 'ollama',
      provider_id: 'provider_local_ollama',
      base_url: server.baseUrl,
      status: 'ok',
      models: ['llama3.2:latest'],
      warnings: [expect.stringContaining('plaintext HTTP')],
    })
    expect(server.asked).toEqual(['GET /v1/models'])
  })

  it('find their server through their own environment variable', async () => {
    await using server = await startModelServer(respondWithModels('local-model'))
    const found = await home.json(['provider', 'local-health', 'lm-studio'], {
      env: {
        LM_STUDIO_BASE_URL: `http://localhost:${server.port}/v1/`,
        OLLAMA_BASE_URL: 'http://127.0.0.1:9',
      },
    })
    expect(found).toMatchObject({ status: 'ok', base_url: `http://localhost:${server.port}/v1` })
  })

  it('report unreachable, rejected or unexpected as a result, not as an error', async () => {
    await using redirecting = await startModelServer((response) => {
      response.writeHead(307, { location: 'http://192.0.2.1/v1/models' }).end()
    })
    await using failing = await startModelServer((response) => response.writeHead(500).end())
    await using huge = await startModelServer(respondEndlessly)
    await using slow = await startModelServer(respondSlowly('{"data":[]}', 20))
    await using nonsense = await startModelServer(jsonAnswer({ hello: 'world' }))
    for (const [server, status, detail] of [
      [redirecting, 'rejected', 'redirects are not followed'],
      [failing, 'rejected', 'HTTP 500'],
      [huge, 'unexpected', '1 MiB'],
      [slow, 'unreachable', 'no complete response within 400 ms'],
      [nonsense, 'unexpected', 'not a list of models'],
      [{ baseUrl: 'http://127.0.0.1:9/v1' }, 'unreachable', 'nothing listens there'],
    ] as const) {
      const timeout = status === 'unreachable' ? '0.4' : '20'
      expect(await health('vllm', server.baseUrl, timeout)).toMatchObject({
        status,
        detail: expect.stringContaining(detail),
        models: [],
      })
    }
  })

  it('accept only loopback addresses', async () => {
    const refused = [
      'http://8.8.8.8/v1',
      'http://example.com/v1',
      'http://metadata.google.internal/v1',
      'http://user:pw@localhost/v1',
      'http://localhost.evil.example/v1',
      'http://2130706433/v1',
      'http://127.1/v1',
      'http://0177.0.0.1/v1',
      'http://[::ffff:127.0.0.1]/v1',
      'http://[fe80::1]/v1',
      'http://169.254.169.254/v1',
      'http://0.0.0.0/v1',
      'http://10.0.0.1/v1',
      'http://localhost./v1',
    ]
    const results = await Promise.all(
      refused.map(async (url) => {
        const { code, stdout, stderr } = await home.run(
          ['provider', 'local-health', 'ollama', '--base-url', url],
          { nodeArguments: ['--import', TRAP] },
        )
        expect(stderr).toMatch(/^craik: invalid --base-url: [^\n]+\n {2}[^\n]+\n$/)
        return [url, code, stdout]
      }),
    )
    expect(results).toEqual(refused.map((url) => [url, 2, '']))
  })

  it('cannot be redirected by a name that changes its address, because names are never resolved', async () => {
    await using server = await startModelServer(respondWithModels('m'))
    const { stdout, stderr } = await home.run(
      ['provider', 'local-health', 'ollama', '--base-url', `http://localhost:${server.port}/v1`],
      { nodeArguments: ['--import', TRAP] },
    )
    expect(JSON.parse(stdout)).toMatchObject({ status: 'ok' })
    expect(stderr).toMatch(/^(?:TRAP: connect\n)+$/)
  })
})

/** Reports on stderr when a socket connects or a name is resolved. */
const TRAP = `data:text/javascript,${encodeURIComponent(`
  import net from 'node:net'
  import dns from 'node:dns'
  import { syncBuiltinESMExports } from 'node:module'
  const say = (what) => process.stderr.write('TRAP: ' + what + '\\n')
  const connect = net.Socket.prototype.connect
  net.Socket.prototype.connect = function (...given) { say('connect'); return connect.apply(this, given) }
  for (const name of ['lookup', 'resolve', 'resolve4', 'resolve6']) {
    const asked = dns[name]
    dns[name] = (...given) => { say(name); return asked(...given) }
  }
  syncBuiltinESMExports()
`)}`

function list(): Promise<ProviderRecord[]> {
  return home.json(['provider', 'list'])
}

function health(preset: string, baseUrl: string, timeoutSeconds = '20'): Promise<unknown> {
  return home.json([
    'provider',
    'local-health',
    preset,
    '--base-url',
    baseUrl,
    '--timeout-seconds',
    timeoutSeconds,
  ])
}

function configure(name: string, record: unknown): void {
  const folder = join(home.home, 'config', 'providers')
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  writeFileSync(join(folder, name), JSON.stringify(record), { mode: 0o600 })
}

/** Returns the content of every file in the Craik home except its cache folder, by path. */
function stateOf({ home: root }: TestHome): Record<string, string> {
  const files = readdirSync(root, { recursive: true, withFileTypes: true }).filter(
    (entry) => entry.isFile() && !entry.parentPath.includes(join(root, 'cache')),
  )
  return Object.fromEntries(
    files.map(({ parentPath, name }) => [
      join(parentPath, name),
      readFileSync(join(parentPath, name)).toString('base64'),
    ]),
  )
}

function sortKeysDeep(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortKeysDeep)
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return Object.fromEntries(entries.map(([key, member]) => [key, sortKeysDeep(member)]))
}
