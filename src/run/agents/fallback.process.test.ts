import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { createGrant } from '../../policy/grants.ts'
import { ADA_OPERATOR, type AgentScene, agentScene, OLLAMA } from './agents.fixture.ts'
import { executeRun } from './execute.ts'
import { approvePrompt } from './run-grants.ts'
import { live } from './wire.fixture.ts'

const STAND_IN = 'provider_fixture_local'

/** Creates a session whose provider breaks off, and a rule with the fixture as its fallback. */
async function failing(scene: AgentScene) {
  const { server, id } = await live(scene, [{ kind: 'break', text: 'half an ans' }])
  const rule = { from_provider_id: OLLAMA, to_provider_id: STAND_IN, on: ['broken_stream'] }
  const config = join(scene.store.home.root, 'config')
  mkdirSync(config, { recursive: true, mode: 0o700 })
  const text = JSON.stringify({ id: 'failover_team', rules: [rule] })
  writeFileSync(join(config, 'failover.json'), text, { mode: 0o600 })
  return { server, id }
}

async function run(scene: AgentScene, sessionId?: string) {
  const about = sessionId === undefined ? {} : { sessionId }
  const input = scene.input({ ...about, providerId: OLLAMA, transport: 'live', maxIterations: 3 })
  await approvePrompt(scene.deps, { ...input, maxIterations: 3, lifetimeMs: 60_000 })
  return executeRun(scene.deps, input)
}

/** Creates the grant that the hint's command would create, flag by flag. */
async function typeHint(scene: AgentScene, hint: string): Promise<void> {
  const [, command] = hint.split(':  craik grant create ')
  const flags = Object.fromEntries(
    [...command!.matchAll(/--([a-z-]+)(?: ([^-\s]\S*))?/g)].map(([, flag, value]) => [flag, value]),
  )
  await createGrant(scene.store, {
    capability: flags.capability!,
    operations: [flags.operation!],
    target: { ref: flags.target! },
    subject: ADA_OPERATOR,
    scope: flags['session-id'] === undefined ? 'any' : { session_id: flags['session-id'] },
    max_uses: Number(flags.uses),
    approved_by: ADA_OPERATOR,
  })
}

describe('a fallback provider', () => {
  it.each(['in a session', 'without a session'])(
    'without a grant %s gets a hint for a grant that also covers all turns of the next run',
    async (where) => {
      using scene = await agentScene()
      const { server, id } = await failing(scene)
      await using _ = server
      const sessionId = where === 'in a session' ? id : undefined
      const { run: denied, stopped } = await run(scene, sessionId)
      expect(denied).toMatchObject({ status: 'failed', stop_reason: 'provider.broken_stream' })
      const scope = sessionId === undefined ? '--any-scope' : '--session-id s1'
      expect(stopped!.hint).toBe(
        `grant it:  craik grant create --capability model.chat --operation chat --target ${STAND_IN} ${scope} --uses 3`,
      )
      await typeHint(scene, stopped!.hint)
      await scene.grant('fixture-action', id)
      const { providerResults } = await run(scene, sessionId)
      expect(providerResults[0]).toMatchObject({ provider_id: STAND_IN })
    },
  )

  it('is named in the handoff as the provider that answered', async () => {
    using scene = await agentScene()
    const { server, id } = await failing(scene)
    await using _ = server
    const { stopped } = await run(scene, id)
    await typeHint(scene, stopped!.hint)
    await scene.grant('fixture-action', id)
    const { handoff } = await run(scene, id)
    expect(handoff).toMatchObject({ provider_id: OLLAMA, answered_by: [STAND_IN] })
  })
})

describe('the provider of a run', () => {
  it('gets a hint with the session’s scope when it lacks a grant', async () => {
    using scene = await agentScene()
    const { server, id } = await live(scene, [{ kind: 'text', text: 'hello' }])
    await using _ = server
    const input = scene.input({ sessionId: id, providerId: OLLAMA, transport: 'live' })
    const { run: blocked, stopped } = await executeRun(scene.deps, input)
    expect(blocked.status).toBe('blocked')
    expect(stopped!.hint).toContain(`--target ${OLLAMA} --session-id s1 --uses 5`)
    await typeHint(scene, stopped!.hint)
    const again = scene.input({ sessionId: id, providerId: OLLAMA, transport: 'live' })
    expect((await executeRun(scene.deps, again)).run.status).toBe('completed')
  })

  it('can fail temporarily: the session accepts the next prompt without a restart', async () => {
    for (const status of [429, 503, 529]) {
      using scene = await agentScene()
      const { server, id } = await live(scene, [
        { kind: 'refuse', status },
        { kind: 'text', text: 'back' },
      ])
      await using _ = server
      const first = await scene.prompt(id)
      expect(first).toMatchObject({ run: { status: 'failed' }, session: { status: 'provider_unavailable' } })
      expect(first.stopped!.hint).not.toContain('agent restart')
      scene.clock.advance(3600_000)
      expect((await scene.prompt(id)).run.status).toBe('completed')
    }
  })

  it('requires a restart of the session after it rejected the request, and the hint says so', async () => {
    using scene = await agentScene()
    const { server, id } = await live(scene, [{ kind: 'refuse', status: 400 }])
    await using _ = server
    const { session, stopped } = await scene.prompt(id)
    expect(session).toMatchObject({ status: 'failed' })
    expect(stopped!.hint).toMatch(/; then: {2}craik agent restart s1$/)
  })
})

describe('a run that is stopped during a call', () => {
  it('ends like any other, with the tokens that the ledger recorded', async () => {
    using scene = await agentScene()
    const { server, id } = await live(scene, [{ kind: 'hang', text: 'well' }])
    await using _ = server
    const going = scene.prompt(id)
    while (server.requests.length === 0) await new Promise((done) => setTimeout(done, 5))
    // The command line passes its own reason.
    const { CraikError } = await import('../../errors.ts')
    scene.interrupt.abort(new CraikError('interrupted', 'interrupted'))
    const { run: stopped, handoff } = await going
    expect(stopped).toMatchObject({ status: 'interrupted', stop_reason: 'cancelled' })
    expect(handoff.status).toBe('incomplete')
    const settled = (await scene.store.bodies()).filter(({ operation }) => operation === 'settle')
    expect(settled).toHaveLength(1)
    expect(stopped.tokens_used).toBe(settled[0]!.metadata!.tokens)
  })
})
