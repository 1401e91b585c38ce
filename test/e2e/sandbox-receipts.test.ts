/** A command in the sandbox of a real home: its receipts verify, and its decision can be recomputed from them. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { systemClock } from '../../src/lib/clock.ts'
import { buildEnvelope, createEnvelope } from '../../src/policy/envelope.ts'
import { createGrant } from '../../src/policy/grants.ts'
import { readBuiltInPolicy } from '../../src/policy/profiles.ts'
import { processCommands } from '../../src/sandboxes/backends/process/command-backend.ts'
import { ensureFixtureAction } from '../../src/sandboxes/fixture-action.ts'
import { type CommandRequest, runCommandReference } from '../../src/sandboxes/local-process.ts'
import { NODE, ROOT, run, TestHome } from '../craik.ts'
import { draft, openLog } from './live-log.ts'

const OPERATOR = 'local-user:ada'

let home: TestHome
beforeEach(() => {
  home = new TestHome()
  mkdirSync(home.path('project'))
})
afterEach(() => home[Symbol.dispose]())

/**
 * Makes three requests. One is denied because it has no receipt, one runs, and one is denied by policy because the
 * grant is used up.
 */
async function threeRuns(): Promise<void> {
  await using live = await openLog(home.home)
  const { store, log } = live
  const policyText = readBuiltInPolicy('automation')
  const envelope = buildEnvelope({
    taskId: 'task-1',
    actor: OPERATOR,
    profile: 'automation',
    policyText,
    nowMs: systemClock.nowMs(),
  })
  await createEnvelope(store, envelope, policyText, { operator: OPERATOR })
  await ensureFixtureAction(store, OPERATOR)
  const { grant } = await createGrant(store, {
    capability: 'shell.execute',
    subject: OPERATOR,
    scope: { task_id: 'task-1' },
    target: { ref: 'fixture-action' },
    operations: ['run'],
    approved_by: OPERATOR,
  })
  const { id: receipt_id } = await log.append(draft({ kind: 'provider_action', capability: 'model.chat' }))
  const request: CommandRequest = {
    kind: 'local_process',
    backend_id: 'sandbox_local_process',
    operator: OPERATOR,
    scope: { task_id: 'task-1', session_id: 'session-1', run_id: 'run-1' },
    policy_envelope_id: envelope.id,
    capability_grant_id: grant.id,
    receipt_id,
    command_ref: 'fixture-action',
    workspace: home.path('project'),
    links: { handoff_id: 'handoff-1', provider_id: 'provider_fixture_local' },
  }
  const environment = { PATH: process.env.PATH, HOME: home.path('nobody') }
  const deps = { store, log, environment, backend: processCommands({ craikHome: home.home, environment }) }
  const outcomes = [
    await runCommandReference(deps, { ...request, receipt_id: undefined }),
    await runCommandReference(deps, request),
    await runCommandReference(deps, request),
  ]
  expect(outcomes.map(({ outcome }) => outcome)).toEqual(['denied', 'ran', 'denied'])
  const ran = outcomes[1]!
  expect((await live.receipt(ran.receiptId)).body).toMatchObject({
    kind: 'sandbox_action',
    status: 'passed',
    isolation: 'process',
    links: {
      session_id: 'session-1',
      run_id: 'run-1',
      handoff_id: 'handoff-1',
      command_ref: 'fixture-action',
    },
  })
}

it('leaves receipts that verify, and decisions that a replay confirms', async () => {
  await threeRuns()
  const report = await home.json<{ outcome: string; replay: { decisions: number; agree: number } }>([
    'receipts',
    'verify',
    '--replay',
    '--format',
    'json',
  ])
  expect(report).toMatchObject({ outcome: 'ok', replay: { decisions: 3, agree: 3 } })
})

it('can be handed out signed right after a command, although the supervisor signs a second later', async () => {
  await home.json(['sandbox', 'create', '--name', 'box'])
  try {
    const signAndWrite = async (file: string, ...args: string[]) => {
      expect(await home.run(['sandbox', 'exec', 'box', '--', 'true'])).toMatchObject({ code: 0 })
      const { code, stdout, stderr } = await home.run(['receipts', ...args])
      expect(code, stderr).toBe(0)
      writeFileSync(home.path(file), stdout)
    }
    await signAndWrite('log.jsonl', 'export')
    await signAndWrite('checkpoint.txt', 'checkpoint', 'export')
    await signAndWrite('consistency.json', 'consistency', 'checkpoint.txt')
    const [last] = await home.json<{ seal: { seq: number } }[]>(['receipts', 'list', '--limit', '1'])
    await signAndWrite('proof.json', 'prove', `${last!.seal.seq + 1}`)
    writeFileSync(home.path('craik.pub'), (await home.run(['receipts', 'key'])).stdout)

    const verifier = join(ROOT, 'docs/verify/craik-verify.mjs')
    for (const file of ['log.jsonl', 'proof.json', 'consistency.json']) {
      const verified = await run(NODE, [verifier, file, '--public-key', 'craik.pub'], { cwd: home.folder })
      expect(verified, `${file}: ${verified.stdout}`).toMatchObject({ code: 0 })
    }
    // Each command in between wrote receipts, so each of these covers more of them than the one before.
    const sizes = ['log.jsonl', 'checkpoint.txt', 'consistency.json'].map(coveredBy)
    expect(sizes).toEqual([...new Set(sizes)].toSorted((a, b) => a - b))
  } finally {
    await home.run(['sandbox', 'delete', '--all', '--yes'])
    await home.run(['supervisor', 'stop'])
  }
})

/** Returns the size of the newest checkpoint in the file. The second line of a checkpoint is its size. */
function coveredBy(file: string): number {
  const notes = readFileSync(home.path(file), 'utf8').matchAll(
    /craik\.local\/[^\n\\]+(?:\n|\\n)(\d+)(?:\n|\\n)/g,
  )
  return Math.max(...[...notes].map(([, size]) => Number(size)))
}
