import { describe, expect, it } from 'vitest'
import { ADA_OPERATOR, type AgentScene, agentScene, OLLAMA } from './agents.fixture.ts'
import { executeRun } from './execute.ts'
import { resumeRun } from './prompt-session.ts'
import { getSession, listEvents } from './read-agent-records.ts'
import { approvePrompt } from './run-grants.ts'
import { call, live, say } from './wire.fixture.ts'

const findActions = async (scene: AgentScene) =>
  (await scene.store.bodies()).filter(({ kind }) => kind === 'sandbox_action')

describe('a prompt on the fixture', () => {
  it('writes both environment receipts with all their links, and the session lists them', async () => {
    using scene = await agentScene()
    const id = await scene.launch()
    const { run, handoff } = await scene.prompt(id)
    expect(run).toMatchObject({ status: 'completed', phase: 'stop', runner_mode: 'fixture', iteration: 2 })
    const bodies = await scene.store.bodies()
    const common = {
      session_id: id,
      task_id: run.task_id,
      run_id: run.id,
      handoff_id: handoff.id,
      policy_envelope_id: 'envelope_agent_s1',
      provider_id: 'provider_fixture_local',
      backend_id: 'sandbox_local_process',
      grant_outcome: 'usable',
    }
    const ends = bodies.filter(({ phase, status }) => phase === 'end' && status === 'passed')
    const provider = ends.filter(({ kind }) => kind === 'provider_action')
    const sandbox = ends.filter(({ kind }) => kind === 'sandbox_action')
    expect(provider).toHaveLength(2)
    expect(provider[0]).toMatchObject({
      capability: 'model.chat',
      links: { ...common, provider_result_count: 1 },
    })
    expect(sandbox).toHaveLength(1)
    expect(sandbox[0]).toMatchObject({
      capability: 'shell.execute',
      target: 'sandbox_action:fixture-action',
      isolation: 'process',
      links: { ...common, command_ref: 'fixture-action' },
    })
    const { record: session } = await getSession(scene.deps, id)
    for (const { id: receipt } of [...provider, ...sandbox]) expect(session.receipt_ids).toContain(receipt)
  })

  it('writes a handoff that matches the receipts and the mode of the run', async () => {
    using scene = await agentScene()
    const { handoff } = await scene.prompt(await scene.launch())
    expect(handoff).toMatchObject({ status: 'completed', execution_mode: 'fixture', tests_run: [] })
    expect(handoff.commands_run).toMatchObject([
      { command_ref: 'fixture-action', status: 'passed', exit_code: 0 },
    ])
    expect(Object.values(handoff.self_audit)).toEqual(Array(6).fill(true))
  })

  it('is blocked without the shell grant: a denial, no command, no further call', async () => {
    using scene = await agentScene()
    const id = await scene.launch()
    const { run, handoff, stopped } = await scene.prompt(id, 'do it', false)
    expect(run).toMatchObject({ status: 'blocked', iteration: 1, stop_reason: 'sandbox.grant' })
    expect(handoff).toMatchObject({ status: 'blocked', commands_run: [] })
    expect(stopped?.hint).toContain(
      'craik grant create --capability shell.execute --operation run --target fixture-action',
    )
    expect(await findActions(scene)).toEqual([])
    const denials = (await scene.store.bodies()).filter(({ kind }) => kind === 'denial')
    expect(denials).toMatchObject([
      { capability: 'shell.execute', status: 'denied', links: { run_id: run.id } },
    ])
    expect((await getSession(scene.deps, id)).record).toMatchObject({ status: 'idle', active_run_id: null })
  })

  it('is blocked under strict although the grant exists', async () => {
    using scene = await agentScene()
    const { run } = await scene.prompt(await scene.launch({ profile: 'strict' }))
    expect(run).toMatchObject({ status: 'blocked', stop_reason: 'strict.never' })
    expect(await findActions(scene)).toEqual([])
  })

  it('stores only the hash of its text', async () => {
    using scene = await agentScene()
    const text = 'PURPLE ELEPHANT 4711'
    const { run } = await scene.prompt(await scene.launch(), text)
    const events = await listEvents(scene.deps, { runId: run.id })
    expect(events.map(({ type }) => type)).toEqual(['prompt_received', 'run_completed'])
    expect(events[0]!.facts).toMatchObject({ prompt_hash: run.prompt_hash })
    const tables = scene.store.database.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").all()
    for (const { name } of tables) {
      const rows = scene.store.database.prepare(`SELECT * FROM "${name}"`).all()
      expect(JSON.stringify(rows)).not.toContain('PURPLE ELEPHANT')
    }
  })
})

describe('the execution path', () => {
  it('denies a library caller without grants, with or without a session', async () => {
    using scene = await agentScene()
    const sessionId = await scene.launch()
    for (const input of [scene.input({ sessionId }), scene.input()]) {
      const { run } = await executeRun(scene.deps, input)
      expect(run).toMatchObject({ status: 'blocked', provider_result_count: 0 })
    }
    expect((await scene.store.bodies()).filter(({ kind }) => kind === 'provider_action')).toEqual([])
    expect(await scene.store.tables.grants.list(10)).toEqual([])
  })

  it('uses a grant only for the run that it was created for', async () => {
    using scene = await agentScene()
    await scene.launch()
    const [one, other] = [scene.input(), scene.input()]
    const terms = { operator: ADA_OPERATOR, providerId: one.providerId, maxIterations: 5, lifetimeMs: 60_000 }
    await approvePrompt(scene.deps, { ...terms, runId: one.runId, commandRef: 'fixture-action' })
    expect((await executeRun(scene.deps, other)).run.status).toBe('blocked')
    expect((await executeRun(scene.deps, one)).run.status).toBe('completed')
  })

  it('refuses an envelope or provider that differs from the session’s', async () => {
    using scene = await agentScene()
    const sessionId = await scene.launch()
    await scene.launch({ id: 's2' })
    const input = scene.input({ sessionId, policyEnvelopeId: 'envelope_agent_s2' })
    await expect(executeRun(scene.deps, input)).rejects.toMatchObject({ code: 'usage' })
  })

  it.each([
    { prompt: '  ' },
    { maxIterations: 0 },
    { maxIterations: 51 },
    { wallMs: 0 },
    { tokenBudget: 1.5 },
    { prompt: 'x'.repeat(256 * 1024 + 1) },
  ])('refuses invalid limits and prompts %#', async (changes) => {
    using scene = await agentScene()
    await expect(executeRun(scene.deps, scene.input(changes))).rejects.toMatchObject({
      code: expect.stringMatching(/usage|too_large/),
    })
    expect(await scene.store.tables.runs.list({}, 10)).toEqual([])
  })
})

describe('a prompt to a model over the wire', () => {
  it('runs the requested command by reference, sends its output back and ends after the second turn', async () => {
    using scene = await agentScene()
    const { server, id } = await live(scene, [call('greet'), say('it greets')])
    await using _ = server
    await scene.register('greet', ['echo', 'hello from the sandbox'])
    await scene.grant('greet', id)
    const { run, text, handoff } = await scene.prompt(id, 'greet me', false)
    expect(run).toMatchObject({ status: 'completed', runner_mode: 'live', iteration: 2, stop_reason: 'end' })
    expect(text).toBe('it greets')
    expect(server.requests.map(({ invalid }) => invalid)).toEqual([undefined, undefined])
    const messages = server.requests[1]!.body.messages
    expect(messages.at(-1)).toMatchObject({
      role: 'tool',
      content: 'exit 0\nstdout:\nhello from the sandbox\n',
    })
    expect(handoff).toMatchObject({
      execution_mode: 'live',
      commands_run: [{ command_ref: 'greet', exit_code: 0 }],
    })
  })

  it('redacts the output that it sends back', async () => {
    using scene = await agentScene()
    const { server, id } = await live(scene, [call('leak'), say('done')])
    await using _ = server
    const secret = `ghp_${'a1B2'.repeat(9)}`
    await scene.register('leak', ['printf', `%s%s`, 'ghp_', 'a1B2'.repeat(9)])
    await scene.grant('leak', id)
    await scene.prompt(id, 'x', false)
    expect(server.requests[1]!.rawBody).toContain('REDACTED')
    expect(server.requests[1]!.rawBody).not.toContain(secret)
  })

  it('answers unknown tools and malformed arguments without running anything', async () => {
    using scene = await agentScene()
    const { server, id } = await live(scene, [
      call('fixture-action', 'delete_everything'),
      call(7),
      say('I give up'),
    ])
    await using _ = server
    const { run } = await scene.prompt(id, 'x')
    expect(run).toMatchObject({ status: 'completed', iteration: 3, commands: [] })
    expect(server.requests[1]!.body.messages.at(-1).content).toContain('there is no tool of that name')
    expect(server.requests[2]!.body.messages.at(-1).content).toContain('command_ref')
    expect(await findActions(scene)).toEqual([])
  })

  it.each(['rm -rf .', 'greet; id', '$(id)', 'greet > x', 'a\nb', '`id`', 'greet && id'])(
    'blocks the inline command %j and stores it in no record',
    async (inline) => {
      using scene = await agentScene()
      const { server, id } = await live(scene, [call(inline), say('never')])
      await using _ = server
      const { run } = await scene.prompt(id, 'x')
      expect(run).toMatchObject({
        status: 'blocked',
        commands: [{ command_ref: 'not-a-reference', status: 'denied' }],
      })
      expect(server.requests).toHaveLength(1)
      expect(await findActions(scene)).toEqual([])
    },
  )

  it('completes when a command failed and the model ended, and the handoff reports the failure', async () => {
    using scene = await agentScene()
    const { server, id } = await live(scene, [call('bad'), say('it fails')])
    await using _ = server
    await scene.register('bad', ['false'])
    await scene.grant('bad', id)
    const { run, handoff } = await scene.prompt(id, 'x', false)
    expect(run.status).toBe('completed')
    expect(handoff.commands_run).toMatchObject([{ command_ref: 'bad', status: 'failed', exit_code: 1 }])
    expect(handoff.completed_actions.map(({ capability }) => capability)).toEqual([
      'model.chat',
      'model.chat',
    ])
    expect(handoff.risks).toContain('a command failed')
    expect(Object.values(handoff.self_audit)).toEqual(Array(6).fill(true))
  })

  it('stops as interrupted when its turns are used up, although the model wants more', async () => {
    using scene = await agentScene()
    const { server, id } = await live(scene, [call(1)])
    await using _ = server
    const { run, handoff } = await scene.prompt(id, 'x')
    expect(run).toMatchObject({ status: 'interrupted', stop_reason: 'max_iterations', iteration: 5 })
    expect(handoff.status).toBe('incomplete')
    expect(server.requests).toHaveLength(5)
  })

  it('stops in the middle of a call when its time is over or it is interrupted', async () => {
    using scene = await agentScene()
    const { server, id } = await live(scene, [{ kind: 'silence' }])
    await using _ = server
    const input = scene.input({ sessionId: id, providerId: OLLAMA, transport: 'live', wallMs: 50 })
    await approvePrompt(scene.deps, { ...input, maxIterations: 5, lifetimeMs: 60_000 })
    expect((await executeRun(scene.deps, input)).run).toMatchObject({
      status: 'interrupted',
      stop_reason: 'wall_budget',
    })
    // On a busy machine, the time can be over before the first call is sent.
    const before = server.requests.length
    const going = scene.prompt(id)
    while (server.requests.length === before) await new Promise((done) => setTimeout(done, 5))
    scene.interrupt.abort()
    expect((await going).run).toMatchObject({ status: 'interrupted', stop_reason: 'cancelled' })
    expect((await getSession(scene.deps, id)).record.status).toBe('idle')
  })

  it('fails when the provider fails, and the session’s status gives the reason', async () => {
    using scene = await agentScene()
    const { server, id } = await live(scene, [{ kind: 'refuse', status: 500 }])
    await using _ = server
    const { run, handoff } = await scene.prompt(id)
    expect(run).toMatchObject({ status: 'failed', stop_reason: 'provider.server_error' })
    expect(handoff).toMatchObject({ status: 'failed', completed_actions: [] })
    expect((await getSession(scene.deps, id)).record.status).toBe('provider_unavailable')
  })

  it('does not treat a truncated answer as complete', async () => {
    using scene = await agentScene()
    const { server, id } = await live(scene, [{ kind: 'text', text: 'and then', stop: 'max_tokens' }])
    await using _ = server
    expect((await scene.prompt(id)).run).toMatchObject({ status: 'interrupted', stop_reason: 'max_tokens' })
  })

  it('resumes only with the same text and does not repeat passed commands', async () => {
    using scene = await agentScene()
    const { server, id } = await live(scene, [call('greet'), call(0), call('greet'), say('done')])
    await using _ = server
    await scene.register('greet', ['echo', 'hello'])
    await scene.grant('greet', id)
    const options = { allowFixtureAction: false, maxIterations: 2 }
    const { promptSession } = await import('./prompt-session.ts')
    const first = await promptSession(scene.deps, ADA_OPERATOR, id, 'greet me', options)
    expect(first.run).toMatchObject({ status: 'interrupted', commands: [{ status: 'passed' }] })
    const resume = (text: string) => resumeRun(scene.deps, ADA_OPERATOR, first.run.id, text, options)
    await expect(resume('greet you')).rejects.toMatchObject({ code: 'usage' })
    const second = await resume('greet me')
    expect(second.run).toMatchObject({
      status: 'completed',
      resumed_from: first.run.id,
      task_id: first.run.task_id,
    })
    expect(second.run.id).not.toBe(first.run.id)
    expect(second.run.commands).toEqual([])
    expect(server.requests[3]!.body.messages.at(-1).content).toContain('is not run again')
    expect((await findActions(scene)).filter(({ phase }) => phase === 'begin')).toHaveLength(1)
  })

  it('does not offer commands that secrets are read from', async () => {
    using scene = await agentScene()
    const { server, id } = await live(scene, [say('ok')])
    await using _ = server
    await scene.register('openai-key', ['pass', 'show', 'openai'])
    await scene.store.tables.secrets.put({
      name: 'OPENAI_API_KEY',
      source: 'command',
      reference: 'openai-key',
      sealed: null,
      updatedAtMs: 0,
    })
    await scene.prompt(id)
    expect(server.requests[0]!.rawBody).toContain('fixture-action')
    expect(server.requests[0]!.rawBody).not.toContain('openai-key')
  })
})
