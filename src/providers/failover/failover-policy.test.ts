import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { CraikError } from '../../errors.ts'
import { type Home, homeAt } from '../../store/home.ts'
import { loadFailoverPolicy } from './failover-policy.ts'

const IDS = ['provider_openai', 'provider_anthropic']
const RULE = { from_provider_id: 'provider_openai', to_provider_id: 'provider_anthropic' }

let folder: string
let home: Home
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'craik-failover-'))
  home = homeAt(folder)
  mkdirSync(home.config)
})
afterEach(() => rmSync(folder, { recursive: true }))

const write = (name: string, text: string) => writeFileSync(join(home.config, name), text, { mode: 0o600 })
const writePolicy = (changes: object = {}) =>
  write('failover.json', JSON.stringify({ id: 'failover_team', rules: [RULE], ...changes }))

async function refusal(): Promise<string> {
  const error = await loadFailoverPolicy(home, IDS).catch((thrown: unknown) => thrown)
  if (!(error instanceof CraikError)) throw new Error('expected a CraikError', { cause: error })
  expect(error.code).toBe('invalid_config')
  return error.message
}

test('is undefined when there is no file', async () => {
  expect(await loadFailoverPolicy(home, IDS)).toBeUndefined()
})

test('fills in a rule’s defaults', async () => {
  writePolicy()
  expect(await loadFailoverPolicy(home, IDS)).toEqual({
    id: 'failover_team',
    rules: [
      {
        ...RULE,
        on: ['unreachable', 'timeout', 'rate_limited', 'overloaded', 'server_error'],
        reason: 'configured',
        requires_receipt: true,
      },
    ],
    denied_provider_ids: [],
    stop_reasons: [],
  })
})

test('reads YAML as well', async () => {
  write(
    'failover.yaml',
    'id: failover_team\nrules:\n  - from_provider_id: provider_openai\n    to_provider_id: provider_anthropic\n    on: [timeout]\n',
  )
  expect((await loadFailoverPolicy(home, IDS))?.rules[0]?.on).toEqual(['timeout'])
})

test('refuses a second file instead of choosing one', async () => {
  writePolicy()
  write('failover.yml', 'id: other\nrules: []\n')
  expect(await refusal()).toBe('config/failover.yml: conflicts with config/failover.json')
})

test.each([
  ['a rule without a receipt', { rules: [{ ...RULE, requires_receipt: false }] }, 'rules.0.requires_receipt'],
  ['a provider that does not exist', { rules: [{ ...RULE, to_provider_id: 'provider_x' }] }, 'provider_x'],
  ['a denied provider that does not exist', { denied_provider_ids: ['provider_y'] }, 'denied_provider_ids.0'],
  ['a failure that does not exist', { rules: [{ ...RULE, on: ['sad'] }] }, 'rules.0.on.0'],
  ['going on after a cancellation', { rules: [{ ...RULE, on: ['cancelled'] }] }, 'rules.0.on.0'],
  ['no failures at all', { rules: [{ ...RULE, on: [] }] }, 'rules.0.on'],
  ['a provider as its own stand-in', { rules: [{ ...RULE, to_provider_id: 'provider_openai' }] }, 'rules.0'],
  ['an unknown field', { retries: 3 }, 'retries'],
  ['a stop reason that does not exist', { stop_reasons: ['sad'] }, 'stop_reasons.0'],
  ['a cooldown beyond five minutes', { cooldown_ms: 300_001 }, 'cooldown_ms'],
  [
    'something that looks like a secret',
    { id: `ghp_${'a1B2c3D4e5F6'.repeat(3)}` },
    'id: looks like a secret',
  ],
])('refuses %s, naming the file and the field', async (_what, changes, field) => {
  writePolicy(changes)
  const message = await refusal()
  expect(message).toContain('config/failover.json: ')
  expect(message).toContain(field)
  expect(message).not.toContain('ghp_')
})

test('does not follow a link', async () => {
  writePolicy()
  rmSync(join(home.config, 'failover.json'))
  writeFileSync(join(folder, 'elsewhere.json'), '{}', { mode: 0o600 })
  symlinkSync(join(folder, 'elsewhere.json'), join(home.config, 'failover.json'))
  expect(await refusal()).toContain('symbolic link')
})
