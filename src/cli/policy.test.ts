import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type InProcessStore, inProcessStore } from '../../test/in-process-store.ts'
import type { CraikError } from '../errors.ts'
import { homeAt } from '../store/home.ts'
import type { CliContext, NounBuilder } from './context.ts'
import { grantCommand } from './grant.ts'
import { policyCommand } from './policy.ts'

const NOW = Date.parse('2026-03-01T12:00:00Z')

let folder: string
let store: InProcessStore
let opened: number
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'craik-cli-policy-'))
  store = inProcessStore({ nowMs: () => NOW })
  opened = 0
})
afterEach(() => rm(folder, { recursive: true }))

/** Runs one command as in a terminal or a pipe. */
async function craik(noun: NounBuilder, argv: readonly string[], isTTY = false) {
  let stdout = ''
  let exitCode = 0
  const write = (text: string) => {
    stdout += text
    return true
  }
  const context: CliContext = {
    home: homeAt(folder),
    clock: { nowMs: () => NOW },
    environment: {},
    stdin: process.stdin,
    stdout: { isTTY, write } as unknown as NodeJS.WriteStream,
    stderr: process.stderr,
    signal: new AbortController().signal,
    kill: new AbortController().signal,
    operator: async () => 'local-user:ada',
    localUser: 'local-user:ada',
    processCommands: async () => {
      throw new Error('no command runs here')
    },
    mainFile: 'none',
    openSandboxes: async () => {
      throw new Error('nothing is held here')
    },
    store: async () => {
      opened++
      return store
    },
    log: async () => store.log,
    processHealth: async () => [],
    setExitCode: (code) => {
      exitCode = code
    },
    exitWhenUnread: () => {},
  }
  const command = await noun(context)
  for (const each of [command, ...command.commands])
    each.exitOverride().configureOutput({ writeErr: () => {} })
  await command.parseAsync([...argv], { from: 'user' })
  return { stdout, exitCode, json: () => JSON.parse(stdout) }
}

test('policy show prints the envelope and does not open the store', async () => {
  const { json } = await craik(policyCommand, ['show', '--task-id', 'task-1'])
  expect(json()).toMatchObject({
    policy_envelope: { id: 'policy_task-1', profile: 'strict', actor: 'local-user:ada', fail_open: false },
    capabilities: { allowed: ['repo.read', 'memory.read', 'receipt.write', 'shell.operator'] },
  })
  expect(json()).not.toHaveProperty('receipt')
  expect(opened).toBe(0)
})

test('policy show on a terminal names the rules', async () => {
  const { stdout } = await craik(policyCommand, ['show'], true)
  expect(stdout).toContain('strict.never')
  expect(stdout).toMatch(/never +repo\.write, repo\.write\.immutable/)
})

test('policy show --include-receipt keeps the envelope and shows its receipt', async () => {
  const { json } = await craik(policyCommand, ['show', '--task-id', 'task-1', '--include-receipt'])
  expect(json().receipt.body).toMatchObject({ kind: 'environment_decision', target: 'policy_task-1' })
  expect(await store.tables.envelopes.get('policy_task-1')).toBeDefined()
})

test('trusted-local needs an explicit flag and writes a policy.fail_open receipt', async () => {
  await expect(craik(policyCommand, ['show', '--profile', 'trusted-local'])).rejects.toMatchObject({
    code: 'usage',
    hint: expect.stringContaining('--trusted-local-fail-open'),
  })
  const flags = ['--profile', 'trusted-local', '--trusted-local-fail-open', '--include-receipt']
  const { json } = await craik(policyCommand, ['show', ...flags])
  expect(json().receipt.body).toMatchObject({ capability: 'policy.fail_open' })
  await expect(
    craik(policyCommand, ['show', '--profile', 'automation', '--trusted-local-fail-open']),
  ).rejects.toMatchObject({ code: 'usage' })
})

test.each(['strict', 'trusted-local', 'automation'])('policy test --profile %s passes', async (profile) => {
  const { json, exitCode } = await craik(policyCommand, ['test', '--profile', profile])
  expect(exitCode).toBe(0)
  expect(json().passed).toBe(true)
  expect(json().checks.length).toBeGreaterThanOrEqual(6)
  expect(opened).toBe(0)
})

test('the self-checks pass for a custom policy that permits everything', async () => {
  await mkdir(join(folder, 'config', 'policies'), { recursive: true })
  await writeFile(
    join(folder, 'config', 'policies', 'custom.cedar'),
    '@id("custom.all") permit (principal, action, resource);',
  )
  const { json } = await craik(policyCommand, ['test', '--profile', 'custom'])
  expect(json()).toMatchObject({ profile: 'custom', passed: true })
})

test('policy test tries one decision without using a grant or writing a receipt', async () => {
  const dry = [
    'test',
    '--capability',
    'shell.test',
    '--operation',
    'run',
    '--target',
    'unit-tests',
    '--task-id',
    't',
  ]
  const denied = await craik(policyCommand, dry)
  expect(denied.exitCode).toBe(77)
  expect(denied.json()).toMatchObject({ effect: 'deny', rule: 'default_deny', grant_would_help: true })
  const created = await craik(grantCommand, [
    'create',
    '--capability',
    'shell.test',
    '--operation',
    'run',
    '--target',
    'unit-tests',
    '--task-id',
    't',
  ])
  const { id } = created.json()
  const before = (await store.bodies()).length
  const allowed = await craik(policyCommand, [...dry, '--grant', id])
  expect(allowed.json()).toMatchObject({ effect: 'allow', grant_outcome: 'usable' })
  expect(allowed.exitCode).toBe(0)
  expect((await store.bodies()).length).toBe(before)
  expect(await store.tables.grants.get(id)).toMatchObject({ usesLeft: 1 })
})

test('policy check names file, line and column, and exits 78', async () => {
  const path = join(folder, 'mine.cedar')
  await writeFile(path, '// é😀\n@id("custom.a")\npermitt (principal, action, resource);')
  const { stdout, exitCode } = await craik(policyCommand, ['check', path])
  expect(stdout).toContain(`${path}:3:1: invalid policy effect: permitt`)
  expect(exitCode).toBe(78)
  await writeFile(path, '@id("custom.a") permit (principal, action == Action::"repo.read", resource);')
  expect(await craik(policyCommand, ['check', path])).toMatchObject({ exitCode: 0 })
  const { json } = await craik(policyCommand, ['check', path, '--format', 'json'])
  expect(json()).toEqual({ file: path, findings: [], valid: true })
})

test('a grant is created, listed, shown and revoked', async () => {
  const created = await craik(grantCommand, [
    'create',
    '--capability',
    'repo.write.docs',
    '--operation',
    'write',
    '--operation',
    'delete',
    '--repo',
    'craik',
    '--path',
    './docs//**',
    '--exclude',
    'docs/legal',
    '--session-id',
    's1',
    '--uses',
    '3',
    '--expires',
    '30m',
    '--reason',
    'tidy the guide',
  ])
  const grant = created.json()
  expect(grant).toMatchObject({
    capability: 'repo.write.docs',
    subject: 'local-user:ada',
    approved_by: 'local-user:ada',
    operations: ['write', 'delete'],
    scope: { session_id: 's1' },
    target: { repo: 'craik', paths: ['docs/**'], exclude: ['docs/legal'] },
    uses_left: 3,
    expires_at: '2026-03-01T12:30:00.000Z',
    reason: 'tidy the guide',
    state: 'usable',
    receipt_id: expect.stringMatching(/^rcpt_/),
  })
  const listed = await craik(grantCommand, ['list'], true)
  expect(listed.stdout).toMatch(
    new RegExp(`${grant.id}  repo.write.docs  local-user:ada  3 +in 30 min  usable`),
  )
  const shown = await craik(grantCommand, ['show', grant.id], true)
  expect(shown.stdout).toContain('docs/legal')
  expect((await craik(grantCommand, ['revoke', grant.id])).json()).toMatchObject({ state: 'revoked' })
  expect((await craik(grantCommand, ['list'])).json()).toMatchObject([{ id: grant.id, state: 'revoked' }])
})

const needed = ['create', '--capability', 'shell.test', '--operation', 'run']
test.each<[string, readonly string[], Partial<CraikError>]>([
  ['an unknown grant', ['show', 'grant_x'], { code: 'not_found', message: 'unknown grant: grant_x' }],
  [
    'an unknown grant to revoke',
    ['revoke', 'grant_x'],
    { code: 'not_found', message: 'unknown grant: grant_x' },
  ],
  ['no scope', needed, { code: 'usage' }],
  [
    'a capability that does not exist',
    ['create', '--capability', 'x.y', '--operation', 'a', '--any-scope'],
    { code: 'usage' },
  ],
  ['a glob in a segment', [...needed, '--any-scope', '--path', '*.md'], { code: 'usage' }],
  ['a path that climbs', [...needed, '--any-scope', '--path', '../x'], { code: 'usage' }],
  ['two kinds of uses', [...needed, '--any-scope', '--uses', '2', '--unlimited-uses'], { code: 'usage' }],
  ['a length of time that is none', [...needed, '--any-scope', '--expires', 'soon'], { code: 'usage' }],
  ['an id that is none', ['show', 'a b'], { code: 'usage' }],
])('grant refuses %s', async (_, argv, error) => {
  await expect(craik(grantCommand, argv)).rejects.toMatchObject(error)
  expect(await store.bodies()).toEqual([])
})

test('a grant with unlimited uses and any scope needs explicit flags', async () => {
  const { json } = await craik(grantCommand, [
    ...needed,
    '--any-scope',
    '--unlimited-uses',
    '--subject',
    'agent:coder',
  ])
  expect(json()).toMatchObject({ scope: 'any', max_uses: null, uses_left: null, subject: 'agent:coder' })
})
