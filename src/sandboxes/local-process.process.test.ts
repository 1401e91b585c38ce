import { mkdirSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { POLICY_OPERATOR } from '../policy/policy.fixture.ts'
import { ensureFixtureAction } from './fixture-action.ts'
import { runCommandReference } from './local-process.ts'
import {
  contextFor,
  localRequest,
  runArgv,
  type SandboxScene,
  sandboxScene,
  TestFolder,
} from './sandbox.fixture.ts'

let test: TestFolder
let scene: SandboxScene
let workspace: string

beforeEach(async () => {
  test = new TestFolder()
  mkdirSync(test.path('home'), { mode: 0o700 })
  mkdirSync(test.path('project'))
  workspace = test.path('project')
  scene = await sandboxScene()
})
afterEach(() => test[Symbol.dispose]())

describe('a command reference', () => {
  it('runs in its own namespaces and writes two receipts', async () => {
    const context = contextFor(scene, test.path('home'))
    const outcome = await runCommandReference(
      context,
      await localRequest(scene, 'fixture-action', { workspace }),
    )
    expect(outcome).toMatchObject({
      outcome: 'ran',
      status: 'passed',
      isolation: 'process',
      run: { end: 'exited', exitCode: 0 },
      stdout: { text: 'Linux\n', bytes: 6, truncated: false },
      decision: { status: 'allowed', allowed: true, rule: 'automation.granted', grant_outcome: 'usable' },
    })
    if (outcome.outcome === 'denied') return
    const [begin, end] = (await scene.store.bodies()).slice(-2)
    expect([begin!.id, end!.id]).toEqual(outcome.receiptIds)
    expect(begin).toMatchObject({
      kind: 'sandbox_action',
      phase: 'begin',
      capability: 'shell.execute',
      operation: 'run',
      target: 'sandbox_action:fixture-action',
      isolation: 'process',
      links: {
        backend_id: 'sandbox_local_process',
        command_ref: 'fixture-action',
        grant_outcome: 'usable',
        policy_envelope_id: 'policy_task-1',
        receipt_ids: [scene.receiptId],
        task_id: 'task-1',
      },
      decision: { effect: 'allow', replayable: true, input: { schema: 'craik.sandbox_decision/1' } },
    })
    expect(end).toMatchObject({
      kind: 'sandbox_action',
      phase: 'end',
      status: 'passed',
      target: 'sandbox_action:fixture-action',
      isolation: 'process',
      metadata: { end: 'exited' },
      digests: { stdout: `sha256:${outcome.stdout.sha256}` },
    })
    expect(end!.measures).toContainEqual({ name: 'exit_code', value: 0, source: 'observed' })
    expect(JSON.stringify([begin, end])).not.toContain('Linux')
    expect(JSON.stringify([begin, end])).not.toContain(workspace)
  })

  it('without a grant for it is denied, and nothing runs', async () => {
    await scene.register('write', ['touch', 'ran'])
    const grant = await scene.grant('another-command')
    const request = await localRequest(scene, 'write', { workspace, capability_grant_id: grant })
    const outcome = await runCommandReference(contextFor(scene, test.path('home')), request)
    expect(outcome).toMatchObject({
      outcome: 'denied',
      decision: {
        status: 'denied',
        allowed: false,
        rule: 'default_deny',
        grant_outcome: 'wrong_target',
      },
    })
  })

  it('spends a single-use grant, so that a second run is denied', async () => {
    const context = contextFor(scene, test.path('home'))
    const request = await localRequest(scene, 'fixture-action', { workspace })
    expect((await runCommandReference(context, request)).outcome).toBe('ran')
    expect(await runCommandReference(context, request)).toMatchObject({
      outcome: 'denied',
      decision: { grant_outcome: 'used_up' },
    })
  })

  it('that fails is reported as failed, because only exit code 0 counts as passed', async () => {
    const context = contextFor(scene, test.path('home'))
    const failed = await runArgv(scene, context, ['sh', '-c', 'echo no >&2; exit 3'], { workspace })
    expect(failed).toMatchObject({ status: 'failed', run: { exitCode: 3 }, stderr: { text: 'no\n' } })
    // The second program exists on the host, but not in the sandbox.
    writeFileSync(test.path('tool'), '#!/bin/sh\n', { mode: 0o755 })
    for (const program of ['no-such-program-here', test.path('tool')]) {
      const missing = await runArgv(scene, context, [program], { workspace })
      expect(missing).toMatchObject({
        status: 'failed',
        run: { end: 'not_started', reason: 'missing', message: expect.stringContaining(program) },
      })
      const end = (await scene.store.bodies()).at(-1)
      expect(end).toMatchObject({
        status: 'failed',
        metadata: { end: 'not_started', not_started: 'missing' },
      })
      expect(end?.measures).not.toContainEqual(expect.objectContaining({ name: 'exit_code' }))
    }
  })

  it('whose sandbox cannot be created never starts, and its receipt claims no isolation', async () => {
    const context = contextFor(scene, test.path('home'))
    const outcome = await runArgv(scene, context, ['true'], { workspace: test.path('home') })
    expect(outcome).toMatchObject({ status: 'failed', isolation: null, run: { end: 'not_started' } })
    const end = (await scene.store.bodies()).at(-1)!
    expect(end).toMatchObject({ phase: 'end', status: 'failed' })
    expect(end.isolation).toBeUndefined()
  })

  it('returns its output redacted, and the receipt contains none of it', async () => {
    const token = `ghp_${'a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8'}`
    writeFileSync(test.path('project', 'leak.txt'), `key ${token}\n`)
    const context = contextFor(scene, test.path('home'))
    const seen: string[] = []
    await scene.register('leak', ['cat', 'leak.txt'])
    const outcome = await runCommandReference(
      context,
      await localRequest(scene, 'leak', { workspace }),
      (_, text) => seen.push(text),
    )
    expect(outcome).toMatchObject({ stdout: { text: 'key [REDACTED]\n' } })
    expect(seen.join('')).toBe('key [REDACTED]\n')
    expect(JSON.stringify(await scene.store.bodies())).not.toContain(token.slice(4))
  })

  it('keeps a limited beginning of long output, and counts and hashes all of it', async () => {
    const context = contextFor(scene, test.path('home'))
    const outcome = await runArgv(scene, context, ['sh', '-c', "yes 'a line of text' | head -c 200000"], {
      workspace,
    })
    expect(outcome.stdout).toMatchObject({ truncated: true, bytes: 200_000 })
    expect(outcome.stdout.text).toHaveLength(64 * 1024)
  })
})

describe('without bubblewrap', () => {
  const bare = { PATH: '/nonexistent' }

  it('a request for namespaces is denied with a receipt and the command that would help', async () => {
    const context = contextFor(scene, test.path('home'), bare)
    const request = await localRequest(scene, 'fixture-action', { workspace })
    const outcome = await runCommandReference(context, request)
    expect(outcome).toMatchObject({
      outcome: 'denied',
      decision: {
        rule: 'sandbox.isolation',
        reason: expect.stringContaining('bubblewrap is not installed'),
        hint: expect.stringContaining('apt-get install bubblewrap'),
      },
    })
    expect((await scene.store.bodies()).at(-1)).toMatchObject({
      kind: 'denial',
      status: 'denied',
      decision: { rule: 'sandbox.isolation', replayable: true },
      links: { command_ref: 'fixture-action', backend_id: 'sandbox_local_process' },
      metadata: { denied_kind: 'sandbox_action' },
    })
    // The denial did not spend the grant.
    const again = { ...request, isolation: 'none' } as const
    expect((await runCommandReference({ ...context, environment: process.env }, again)).outcome).toBe('ran')
  })

  it('a request that names the weaker isolation runs, and its receipts state isolation none', async () => {
    const place = { ...contextFor(scene, test.path('home'), bare), environment: process.env }
    const request = await localRequest(scene, 'fixture-action', { workspace, isolation: 'none' })
    expect(await runCommandReference(place, request)).toMatchObject({ status: 'passed', isolation: 'none' })
    const [begin, end] = (await scene.store.bodies()).slice(-2)
    expect([begin!.isolation, end!.isolation]).toEqual(['none', 'none'])
  })
})

describe('the fixture action', () => {
  it('is registered once, with a receipt', async () => {
    const before = (await scene.store.bodies()).length
    await ensureFixtureAction(scene.store, POLICY_OPERATOR)
    expect(await scene.store.bodies()).toHaveLength(before)
    expect(await scene.store.bodies()).toContainEqual(
      expect.objectContaining({ capability: 'command.write', target: 'command/fixture-action' }),
    )
  })

  it('never replaces another command of its name', async () => {
    await scene.store.tables.commands.remove('fixture-action')
    await scene.register('fixture-action', ['rm', '-rf', 'build'])
    await expect(ensureFixtureAction(scene.store, POLICY_OPERATOR)).rejects.toMatchObject({
      code: 'conflict',
    })
    expect((await scene.store.tables.commands.get('fixture-action'))?.argv).toEqual(['rm', '-rf', 'build'])
  })
})
