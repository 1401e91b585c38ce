/**
 * Runs report only what happened. These tests cover defects of the original Craik: fixtures, outcomes, and limits that
 * it did not check.
 */
import { mkdirSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Receipt } from '../../src/receipts/schema.ts'
import { contextFor, runArgv, sandboxScene, TestFolder } from '../../src/sandboxes/sandbox.fixture.ts'
import { TestHome } from '../craik.ts'

interface Handoff {
  readonly execution_mode: string
  readonly tests_run: readonly unknown[]
  readonly commands_run: readonly { readonly command_ref: string; readonly status: string }[]
}

interface Execution {
  readonly status: string
  readonly provider_result_count: number
  readonly run: {
    readonly id: string
    readonly runner_mode: string
    readonly stop_reason: string
    readonly handoff_id: string
  }
  readonly handoff: Handoff
}

const FIXTURE = ['--provider', 'provider_fixture_local']

let home: TestHome
beforeEach(async () => {
  home = new TestHome()
  mkdirSync(home.path('project'))
  await home.json(['login', '--as', 'ada'])
  await home.json([
    'agent',
    'launch',
    '--fixture',
    '--session-id',
    's1',
    '--isolation',
    'none',
    '--workspace',
    home.path('project'),
  ])
})
afterEach(() => home[Symbol.dispose]())

async function prompt(...more: readonly string[]): Promise<Execution> {
  const { stdout } = await home.run(['agent', 'prompt', 's1', ...more, 'run the fixture action'])
  return JSON.parse(stdout) as Execution
}

async function receiptsOf(runId: string): Promise<readonly Receipt['body'][]> {
  const all = await home.json<Receipt[]>(['receipts', 'list', '--run', runId, '--limit', '200'])
  return all.map(({ body }) => body)
}

describe('a run with fixtures', () => {
  it('is marked as a fixture run in its record and handoff, and lists no test that did not run', async () => {
    const { run, status } = await prompt()
    expect([status, run.runner_mode]).toEqual(['completed', 'fixture'])
    const { handoff } = await home.json<{ handoff: Handoff }>(['handoff', 'show', run.handoff_id])
    expect(handoff).toMatchObject({
      execution_mode: 'fixture',
      tests_run: [],
      commands_run: [{ command_ref: 'fixture-action', status: 'passed' }],
    })
  })

  it('cannot be reported as live', async () => {
    const demo = await home.run(['demo', 'persistent-agent', '--allow-live'])
    expect([demo.code, demo.stdout]).toEqual([2, ''])
    expect(demo.stderr).toContain("unknown option '--allow-live'")
  })
})

describe('the receipt of a command', () => {
  it.each([
    ['passed', ['true'], 'exited'],
    ['failed', ['false'], 'exited'],
    ['failed', ['no-such-program-here'], 'not_started'],
  ])('records %s for %j, because the end was %s', async (status, argv, end) => {
    using folder = new TestFolder()
    mkdirSync(folder.path('project'))
    const scene = await sandboxScene()
    const context = contextFor(scene, folder.path('home'))
    const ran = await runArgv(scene, context, argv, { workspace: folder.path('project'), isolation: 'none' })
    expect(ran.run.end).toBe(end)
    expect((await scene.store.bodies()).at(-1)).toMatchObject({
      kind: 'sandbox_action',
      phase: 'end',
      status,
      isolation: 'none',
    })
  })

  it('records a denial without a grant, regardless of the flag, and no command runs', async () => {
    const { run, status, handoff } = await prompt('--no-allow-fixture-action')
    expect([status, handoff.commands_run]).toEqual(['blocked', []])
    const commands = (await receiptsOf(run.id)).filter(({ capability }) => capability === 'shell.execute')
    expect(commands.map(({ kind, phase, status }) => [kind, phase, status])).toEqual([
      ['denial', 'point', 'denied'],
    ])
  })
})

describe('a limit', () => {
  it.each([
    ['budget', ['budget', 'set', ...FIXTURE, '--tokens', '1'], 'budget.exhausted'],
    ['quota', ['quota', 'set', ...FIXTURE, '--tokens-per-minute', '1'], 'quota.tokens_per_minute'],
  ])(
    'set by a %s is checked before the model call: no call happens, and the denial has a receipt',
    async (_, set, rule) => {
      await home.json(set)
      const { run, status, provider_result_count } = await prompt()
      expect([status, provider_result_count, run.stop_reason]).toEqual(['blocked', 0, rule])
      const receipts = await receiptsOf(run.id)
      expect(receipts.filter(({ kind }) => kind === 'provider_action')).toEqual([])
      expect(receipts.map(({ decision }) => decision?.rule)).toContain(rule)
    },
  )

  it('that allows a call counts its measured usage in the ledger', async () => {
    await home.json(['budget', 'set', ...FIXTURE, '--tokens', '100000'])
    await prompt()
    const [budget] = await home.json<{ spent_tokens: number; held_tokens: number }[]>(['budget', 'show'])
    expect(budget!.spent_tokens).toBeGreaterThan(0)
    expect(budget!.held_tokens).toBe(0)
  })
})
