import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Act } from '../../../test/wire/wire-server.ts'
import { setBudget } from '../../providers/ledger/budgets-and-quotas.ts'
import { ADA_OPERATOR, type AgentScene, agentScene, OLLAMA } from './agents.fixture.ts'
import { executeRun } from './execute.ts'
import { approvePrompt } from './run-grants.ts'
import { live, say } from './wire.fixture.ts'

/** A turn with a tool call that is answered without running anything. */
const turn = (usage: Extract<Act, { kind: 'tool_call' }>['usage']): Act =>
  usage === undefined
    ? { kind: 'tool_call', name: 'x', arguments: {} }
    : { kind: 'tool_call', name: 'x', arguments: {}, usage }
const used = (input: number, output: number) => ({ input, cacheRead: 0, output })

async function run(scene: AgentScene, sessionId: string, tokenBudget?: number) {
  const input = scene.input({ sessionId, providerId: OLLAMA, transport: 'live', tokenBudget })
  await approvePrompt(scene.deps, { ...input, maxIterations: 5, lifetimeMs: 60_000 })
  return executeRun(scene.deps, input)
}

describe('the token budget of a run', () => {
  it('ends it when it is used up', async () => {
    using scene = await agentScene()
    const { server, id } = await live(scene, [turn(used(1000, 100))])
    await using _ = server
    expect((await run(scene, id, 2000)).run).toMatchObject({
      status: 'interrupted',
      stop_reason: 'token_budget',
      tokens_used: 2200,
      iteration: 2,
    })
  })

  it('starts no call whose input alone exceeds the rest, and gives the command to run next', async () => {
    using scene = await agentScene()
    const { server, id } = await live(scene, [turn(used(400, 100)), say('never')])
    await using _ = server
    const none = await run(scene, id, 10)
    expect(none.run).toMatchObject({ status: 'interrupted', stop_reason: 'token_budget', tokens_used: 0 })
    expect(none.handoff.self_audit.stayed_within_limits).toBe(true)
    expect(none.stopped?.reason).toMatch(/sends about \d+ tokens, but only 10 of 10 are left/)
    expect(none.stopped?.hint).toMatch(
      /craik run resume run_\w+ "<the same task>" --token-budget [1-9]\d*000$/,
    )
    expect(server.requests).toHaveLength(0)

    const one = await run(scene, id, 700)
    expect(one.run).toMatchObject({ status: 'interrupted', stop_reason: 'token_budget', tokens_used: 500 })
    expect(server.requests).toHaveLength(1)
  })

  it('requests an answer no longer than the rest allows, and never a length that models refuse', async () => {
    using scene = await agentScene()
    const { server, id } = await live(scene, [say('done')])
    await using _ = server
    for (const [tokenBudget, least, most] of [
      [1000, 500, 900],
      [900_000, 32_000, 32_000],
    ] as const) {
      await run(scene, id, tokenBudget)
      const { max_tokens } = server.requests.at(-1)!.body
      expect(max_tokens).toBeGreaterThanOrEqual(least)
      expect(max_tokens).toBeLessThanOrEqual(most)
    }
  })

  it('ends it after a call that does not report its usage, but only with a budget', async () => {
    using scene = await agentScene()
    const { server, id } = await live(scene, [turn('none')])
    await using _ = server
    expect((await run(scene, id, 100_000)).run).toMatchObject({
      status: 'interrupted',
      stop_reason: 'token_usage_unknown',
      tokens_used: null,
      iteration: 1,
    })
    expect((await run(scene, id)).run).toMatchObject({ stop_reason: 'max_iterations', tokens_used: null })
  })

  it('counts a call that broke off, although the run fails with it', async () => {
    using scene = await agentScene()
    const { server, id } = await live(scene, [{ kind: 'break', text: 'half an ans' }])
    await using _ = server
    const { run: failed } = await run(scene, id)
    expect(failed).toMatchObject({ status: 'failed', provider_result_count: 0 })
    expect(failed.tokens_used).toBeGreaterThan(100)
  })

  it('counts a call that broke off before a fallback provider answered', async () => {
    using scene = await agentScene()
    const { server, id } = await live(scene, [{ kind: 'break', text: 'half an ans' }])
    await using _ = server
    const stand_in = 'provider_fixture_local'
    const rule = { from_provider_id: OLLAMA, to_provider_id: stand_in, on: ['broken_stream'] }
    const config = join(scene.store.home.root, 'config')
    mkdirSync(config, { recursive: true, mode: 0o700 })
    const text = JSON.stringify({ id: 'failover_team', rules: [rule] })
    writeFileSync(join(config, 'failover.json'), text, { mode: 0o600 })
    const input = scene.input({ sessionId: id, providerId: OLLAMA, transport: 'live', maxIterations: 1 })
    const terms = { ...input, maxIterations: 5, lifetimeMs: 60_000 }
    for (const providerId of [OLLAMA, stand_in]) await approvePrompt(scene.deps, { ...terms, providerId })
    await scene.grant('fixture-action', id)
    const { run: done, providerResults } = await executeRun(scene.deps, input)
    const [answer] = providerResults
    expect(answer).toMatchObject({ provider_id: stand_in })
    const { input_tokens = 0, output_tokens = 0 } = answer!.usage
    expect(done.tokens_used).toBeGreaterThan(input_tokens + output_tokens + 100)
  })
})

describe('a budget for the sandbox', () => {
  it('limits the calls of the runs in it', async () => {
    using scene = await agentScene()
    const id = await scene.launch()
    await setBudget(
      scene.store,
      {
        scope_kind: 'sandbox',
        scope_ref: 'sandbox_local_process',
        period: 'day',
        limit_nano_usd: null,
        limit_tokens: 1,
        allow_unpriced: false,
      },
      ADA_OPERATOR,
    )
    expect((await scene.prompt(id)).run).toMatchObject({
      status: 'blocked',
      stop_reason: 'budget.exhausted',
      provider_result_count: 0,
      // A denied call used nothing, and that is known.
      tokens_used: 0,
    })
  })
})
