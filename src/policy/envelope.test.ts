import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { inProcessStore } from '../../test/in-process-store.ts'
import { CraikError } from '../errors.ts'
import { homeAt } from '../store/home.ts'
import { buildEnvelope, createEnvelope, type Envelope, envelopeSchema, getEnvelope } from './envelope.ts'
import { customPolicyPath, profileText, readBuiltInPolicy, readPolicyFile } from './profiles.ts'

const NOW = Date.parse('2026-03-01T12:00:00Z')
const clock = { nowMs: () => NOW }
const operator = 'local-user:ada'
const strict = readBuiltInPolicy('strict')
const SECRET = `ghp_${'a1B2c3D4e5F6'.repeat(3)}`
const base = { taskId: 'task-1', actor: operator, profile: 'strict', policyText: strict, nowMs: NOW } as const

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'craik-policy-'))
})
afterEach(() => rm(folder, { recursive: true }))

test('takes its name from its task and records the terms it was created with', () => {
  expect(buildEnvelope(base)).toEqual({
    id: 'policy_task-1',
    task_id: 'task-1',
    actor: operator,
    profile: 'strict',
    fail_open: false,
    allowed_capabilities: null,
    denied_capabilities: [],
    approval_required: [],
    verification_required: true,
    handoff_required: true,
    receipt_required: true,
    redaction_required: true,
    allowed_operators: [],
    allowed_credential_refs: null,
    policy_digest: expect.stringMatching(/^sha256:[0-9a-f]{64}$/),
    created_at: '2026-03-01T12:00:00.000Z',
  })
})

test('refuses trusted-local without its flag and names the flag in the error', () => {
  expect(() => buildEnvelope({ ...base, profile: 'trusted-local' })).toThrow(CraikError)
  try {
    buildEnvelope({ ...base, profile: 'trusted-local' })
  } catch (error) {
    expect(error).toMatchObject({ code: 'usage', hint: expect.stringContaining('--trusted-local-fail-open') })
  }
})

test.each(['strict', 'automation', 'custom'] as const)('never lets %s fail open', (profile) => {
  expect(() => buildEnvelope({ ...base, profile, failOpen: true })).toThrow(/never fails open/)
  const envelope = { ...buildEnvelope({ ...base, profile }), fail_open: true }
  expect(envelopeSchema.safeParse(envelope).success).toBe(false)
})

test('requires a name for an envelope without a task', () => {
  expect(() => buildEnvelope({ ...base, taskId: null })).toThrow(/id/)
  expect(buildEnvelope({ ...base, taskId: null, id: 'policy_shell' }).task_id).toBeNull()
})

test.each([
  ['task_id', { taskId: SECRET }],
  ['actor', { actor: SECRET }],
  ['id', { taskId: null, id: SECRET }],
  ['allowed_operators.0', { allowedOperators: [SECRET] }],
  ['allowed_credential_refs.1', { allowedCredentialRefs: ['OPENAI_API_KEY', SECRET] }],
])('refuses an envelope whose %s looks like a secret, without repeating it', async (where, changes) => {
  const message = `the policy envelope: ${where} looks like a secret`
  expect(() => buildEnvelope({ ...base, ...changes })).toThrow(
    expect.objectContaining({ code: 'usage', message }),
  )
})

test('does not store an envelope with a secret that bypassed the builder', async () => {
  const store = inProcessStore(clock)
  const envelope = { ...buildEnvelope(base), actor: SECRET }
  await expect(createEnvelope(store, envelope, strict, { operator })).rejects.toMatchObject({ code: 'usage' })
  expect(await getEnvelope(store, envelope.id)).toBeUndefined()
})

test('accepts only known capabilities in the lists', () => {
  expect(() => buildEnvelope({ ...base, deniedCapabilities: ['repo.wriet'] })).toThrow(/denied_capabilities/)
})

test('changes nothing when the same envelope is stored again, and reports a different one as a conflict', async () => {
  const store = inProcessStore(clock)
  const envelope = buildEnvelope(base)
  expect(await createEnvelope(store, envelope, strict, { operator })).toEqual({ envelope, created: true })
  const later = buildEnvelope({ ...base, nowMs: NOW + 5000 })
  expect(await createEnvelope(store, later, strict, { operator })).toEqual({ envelope, created: false })
  expect(await getEnvelope(store, 'policy_task-1')).toEqual(envelope)
  const other = buildEnvelope({ ...base, deniedCapabilities: ['repo.read'] })
  await expect(createEnvelope(store, other, strict, { operator })).rejects.toMatchObject({ code: 'conflict' })
  expect(await getEnvelope(store, 'policy_task-1')).toEqual(envelope)
  expect(await store.bodies()).toEqual([])
})

test('writes a receipt on request', async () => {
  const store = inProcessStore(clock)
  const { receipt } = await createEnvelope(store, buildEnvelope(base), strict, { operator, receipt: true })
  expect(await store.bodies()).toMatchObject([
    {
      id: receipt?.id,
      kind: 'environment_decision',
      capability: 'policy.envelope',
      target: 'policy_task-1',
      metadata: { profile: 'strict', fail_open: false },
    },
  ])
})

test('always writes a policy.fail_open receipt for an envelope that fails open', async () => {
  const store = inProcessStore(clock)
  const policyText = readBuiltInPolicy('trusted-local')
  const envelope = buildEnvelope({ ...base, profile: 'trusted-local', failOpen: true, policyText })
  await createEnvelope(store, envelope, policyText, { operator })
  expect(await store.bodies()).toMatchObject([{ capability: 'policy.fail_open', target: 'policy_task-1' }])
})

test('refuses to store a strict envelope with another policy text', async () => {
  const store = inProcessStore(clock)
  const open = '@id("strict.reads") permit (principal, action, resource);'
  const envelope = buildEnvelope({ ...base, policyText: open })
  await expect(createEnvelope(store, envelope, open, { operator })).rejects.toMatchObject({
    code: 'conflict',
  })
  const lying: Envelope = buildEnvelope(base)
  await expect(createEnvelope(store, lying, open, { operator })).rejects.toMatchObject({ code: 'conflict' })
  expect(await getEnvelope(store, 'policy_task-1')).toBeUndefined()
})

test('reads a custom policy from the configuration and checks it', async () => {
  const home = homeAt(folder)
  const path = customPolicyPath(home)
  await expect(profileText('custom', home)).rejects.toMatchObject({ code: 'invalid_config' })
  await mkdir(dirname(path), { recursive: true })
  const valid = '@id("custom.reads") permit (principal, action == Action::"repo.read", resource);'
  await writeFile(path, valid)
  expect(await profileText('custom', home)).toBe(valid)
  await writeFile(path, `// ž😀\n@id("custom.ž") permit (principal, action == Action::"nope", resource);`)
  await expect(profileText('custom', home)).rejects.toMatchObject({
    code: 'invalid_config',
    message: expect.stringContaining(`${path}:2:1: @id("custom.ž") is not a valid name`),
  })
  await writeFile(path, `// ž😀\n/* é */`)
  await expect(profileText('custom', home)).rejects.toThrow(/custom\.cedar:2:4: invalid token/)
  await writeFile(
    path,
    `// ž\n@id("custom.a") @note("ž😀") permit (principal, action == Action::"nope", resource);`,
  )
  await expect(profileText('custom', home)).rejects.toThrow(
    /custom\.cedar:2:58: custom\.a: unrecognized action/,
  )
})

test('reads only regular files of at most 1 MiB of UTF-8', async () => {
  const read = (name: string) => readPolicyFile(join(folder, name))
  await writeFile(join(folder, 'big'), Buffer.alloc(1024 * 1024 + 1, 'x'))
  await expect(read('big')).rejects.toThrow(/larger than 1 MiB/)
  await writeFile(join(folder, 'limit'), Buffer.alloc(1024 * 1024, 'x'))
  expect((await read('limit')).length).toBe(1024 * 1024)
  await writeFile(join(folder, 'binary'), Buffer.from([0x70, 0xff, 0xfe]))
  await expect(read('binary')).rejects.toThrow(/not UTF-8/)
  await expect(read('absent')).rejects.toMatchObject({
    code: 'invalid_config',
    message: expect.stringContaining('no such file'),
  })
  await expect(readPolicyFile(folder)).rejects.toThrow(/not a regular file/)
  await expect(readPolicyFile('/dev/zero')).rejects.toThrow(/not a regular file/)
})
