/** Providers as a user manages them: reading records, and enabling and disabling a local model. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { respondWithModels, startModelServer } from '../../src/providers/local/model-server.fixture.ts'
import { OWN_RECORD } from '../../src/providers/provider-record.fixture.ts'
import type { Receipt } from '../../src/receipts/schema.ts'
import { builtMain, environmentOf, NODE, ROOT, run, TestHome } from '../craik.ts'
import { TOKEN } from './live-log.ts'

let home: TestHome
beforeEach(() => {
  home = new TestHome()
})
afterEach(() => home[Symbol.dispose]())

describe('enabling a local model', () => {
  it('works for a server that responds, and disabling works too; both are recorded', async () => {
    await using server = await startModelServer(respondWithModels('llama3.2:latest', 'qwen3:8b'))
    const enabled = await home.json<{ receipt_id: string }>([
      'provider',
      'enable',
      'ollama',
      '--base-url',
      server.baseUrl,
      '--model',
      'qwen3:8b',
    ])
    expect(enabled).toMatchObject({
      provider_id: 'provider_local_ollama',
      enabled: true,
      base_url: server.baseUrl,
      model: 'qwen3:8b',
      health: { status: 'ok' },
    })
    const disabled = await home.json<{ receipt_id: string }>(['provider', 'disable', 'provider_local_ollama'])
    expect(disabled).toMatchObject({ enabled: false })
    const rows = await home.json<Receipt[]>(['receipts', 'list'])
    expect(rows.map(({ body }) => body.id)).toEqual([disabled.receipt_id, enabled.receipt_id])
    const { body } = await home.json<Receipt>(['receipts', 'show', enabled.receipt_id])
    expect(body).toMatchObject({
      kind: 'environment_decision',
      capability: 'provider.write',
      operation: 'enable',
      target: 'provider_local_ollama',
      metadata: { model: 'qwen3:8b', port: server.port },
    })
    expect((await home.run(['receipts', 'verify'])).code).toBe(0)
    expect((await home.run(['provider', 'disable', 'ollama'])).code).toBe(4)
  })

  it('is refused for a server that does not respond, with the command that checks it', async () => {
    const { code, stdout, stderr } = await home.run([
      'provider',
      'enable',
      'ollama',
      '--base-url',
      'http://127.0.0.1:9/v1',
    ])
    expect([code, stdout]).toEqual([69, ''])
    expect(stderr).toMatch(
      /^craik: provider_local_ollama was not changed: .*unreachable \(nothing listens there\)/,
    )
    expect(stderr).toContain('craik provider local-health ollama --base-url http://127.0.0.1:9/v1')
    const [receipt] = await home.json<Receipt[]>(['receipts', 'list'])
    expect(receipt?.body.status).toBe('blocked')
  })

  it('is possible only for a server on the same host', async () => {
    for (const env of [{}, { OLLAMA_BASE_URL: 'http://192.0.2.1/v1' }]) {
      const flag = Object.keys(env).length === 0 ? ['--base-url', 'http://192.0.2.1/v1'] : []
      const { code, stderr } = await home.run(['provider', 'enable', 'ollama', ...flag], { env })
      expect(code).toBe(2)
      expect(stderr).toMatch(
        /invalid (?:--base-url|base URL in OLLAMA_BASE_URL): its host is an address of another/,
      )
    }
  })

  it('is stored: a later check uses the same server, and warns when it gets another address', async () => {
    await using first = await startModelServer(respondWithModels('m'))
    await using second = await startModelServer(respondWithModels('m'))
    await home.json(['provider', 'enable', 'vllm', '--base-url', first.baseUrl])
    const check = ['provider', 'local-health', 'vllm', '--timeout-seconds', '20']
    expect(await home.json(check)).toMatchObject({ base_url: first.baseUrl, status: 'ok' })
    const other = await home.json<{ warnings: string[] }>([...check, '--base-url', second.baseUrl])
    expect(other.warnings.join()).toContain(`live calls go to ${first.baseUrl}`)
  })

  it('works for a local provider of the user, and for no other', async () => {
    await using server = await startModelServer(respondWithModels('team-large'))
    configure('mine.yaml', { id: 'provider_mine', trust_boundary: 'local', base_url: server.baseUrl })
    expect(await home.json(['provider', 'enable', 'provider_mine'])).toMatchObject({
      base_url: server.baseUrl,
      model: 'team-large',
    })
    for (const [id, code] of [
      ['provider_openai', 2],
      ['provider_nothing', 3],
      ['nothing', 3],
    ] as const)
      expect((await home.run(['provider', 'enable', id])).code).toBe(code)
  })
})

describe('on a terminal', () => {
  it.each([
    ['list'],
    ['show provider_openai'],
    ['select provider_openai --mode runner'],
    ['local-presets'],
    ['local-health ollama --base-url http://127.0.0.1:9/v1'],
  ])('provider %s prints JSON, and a table with --format table', async (words) => {
    const shown = await onTerminal(`provider ${words}`)
    expect(() => JSON.parse(shown)).not.toThrow()
    const table = await onTerminal(`provider ${words} --format table`)
    expect(table).toMatch(/^ {2}\S/)
    expect(table).not.toContain('{')
  })
})

describe('a mistake', () => {
  it.each([
    [['show', TOKEN]],
    [['select', TOKEN]],
    [['select', 'provider_openai', '--mode', TOKEN]],
    [['select', 'provider_openai', '--receipt-id', TOKEN]],
    [['local-health', TOKEN]],
    [['local-health', 'ollama', '--base-url', `http://x:${TOKEN}@localhost`]],
    [['local-health', 'ollama', '--base-url', `http://${TOKEN}/v1`]],
    [['local-health', 'ollama', '--base-url', `http://127.0.0.1:9/${TOKEN}/v1`]],
    [['local-health', 'ollama', '--timeout-seconds', TOKEN]],
    [['enable', 'ollama', '--base-url', `http://127.0.0.1:9/${TOKEN}/v1`]],
    [['enable', TOKEN]],
    [['disable', `provider_${TOKEN}`]],
  ])('never repeats a secret: provider %j', async (words) => {
    const { code, stdout, stderr } = await home.run(['provider', ...words], { env: { CRAIK_DEBUG: '1' } })
    expect(code).not.toBe(0)
    expect(stdout + stderr).not.toContain(TOKEN.slice(4, 30))
  })

  it('such as an address with a secret in its path is refused without a connection', async () => {
    const { code, stderr } = await home.run([
      'provider',
      'enable',
      'ollama',
      '--base-url',
      `http://127.0.0.1:9/${TOKEN}/v1`,
    ])
    expect([code, stderr]).toEqual([2, expect.stringContaining('part of its path looks like a secret')])
    expect(stderr).toContain('craik secret set NAME')
  })

  it.each(['lm-studio', 'lm_studio', 'openai_compatible'])(
    'does not include the preset name %s, with a hyphen or an underscore',
    async (name) => {
      const health = ['provider', 'local-health', name, '--base-url', 'http://127.0.0.1:9/v1']
      expect(await home.json(health)).toMatchObject({ preset_id: name.replace('_', '-') })
    },
  )

  it.each(['0', '-1', '61', 'x', '1e1', ''])('includes a timeout of %j seconds', async (provided) => {
    const { code, stderr } = await home.run([
      'provider',
      'local-health',
      'ollama',
      `--timeout-seconds=${provided}`,
    ])
    expect([code, stderr]).toEqual([2, expect.stringContaining('--timeout-seconds must be a number')])
  })
})

describe('provider list', () => {
  it('loads neither schema, HTTP client, YAML nor store when nothing needs them', async () => {
    // Runs the sources, because a bundle does not show which modules are needed.
    const args = ['--import', LOADED, join(ROOT, 'src/main.ts'), 'provider', 'list']
    const { code, stderr } = await run(NODE, args, { cwd: home.folder, env: environmentOf(home) })
    expect(code).toBe(0)
    const loaded = JSON.parse(stderr) as string[]
    expect(loaded.some((url) => url.endsWith('/providers/provider-catalogue.ts'))).toBe(true)
    const heavy = /node_modules\/(?!commander\/)|\/store\/sqlite\/|\/receipts\/|\/policy\//
    expect(loaded.filter((url) => heavy.test(url))).toEqual([])
  })
})

/** Writes the URLs of all loaded modules to stderr at exit. */
const LOADED = `data:text/javascript,${encodeURIComponent(`
  import { registerHooks } from 'node:module'
  const seen = []
  registerHooks({ load(url, context, next) { seen.push(url); return next(url, context) } })
  process.on('exit', () => process.stderr.write(JSON.stringify(seen)))
`)}`

/** Returns what a user sees: `script` gives the command a terminal of its own. */
async function onTerminal(words: string): Promise<string> {
  const command = `${NODE} ${builtMain()} ${words}`
  const { code, stdout } = await run('script', ['-qec', command, '/dev/null'], {
    cwd: home.folder,
    env: { ...environmentOf(home), SHELL: '/bin/sh' },
  })
  expect(code).toBe(0)
  return stdout.replaceAll('\r', '')
}

function configure(name: string, provided: { id: string; trust_boundary: string; base_url: string }): void {
  const folder = join(home.home, 'config', 'providers')
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const { base_url, ...fields } = provided
  const record = { ...OWN_RECORD, ...fields, metadata: { ...OWN_RECORD.metadata, base_url } }
  // JSON is valid YAML.
  writeFileSync(join(folder, name), JSON.stringify(record), { mode: 0o600 })
}
