/** The calls that a model can request in one turn, and the results that it and the operator get. */
import { describe, expect, it } from 'vitest'
import { ADA_OPERATOR, agentScene } from './agents.fixture.ts'
import { auditSession } from './audit.ts'
import { promptSession } from './prompt-session.ts'
import { call, calls, live, say } from './wire.fixture.ts'

describe('an answer with several commands', () => {
  it('runs at most sixteen of them and reports the others as too many', async () => {
    using scene = await agentScene()
    const { server, id } = await live(scene, [calls(...Array(17).fill('greet')), say('done')])
    await using _ = server
    await scene.register('greet', ['true'])
    for (let i = 0; i < 2; i++) await scene.grant('greet', id)
    const { run } = await scene.prompt(id, 'x', false)
    expect(run).toMatchObject({ status: 'completed' })
    expect(run.commands).toHaveLength(16)
    const replies = server.requests[1]!.body.messages.slice(-17)
    expect(replies.at(-2).content).toContain('exit 0')
    expect(replies.at(-1).content).toBe('too many calls in one answer')
  }, 30_000)

  it('requests one command twice with one grant: the second is denied, and the first stays valid', async () => {
    using scene = await agentScene()
    const { server, id } = await live(scene, [calls('fixture-action', 'fixture-action'), say('never')])
    await using _ = server
    const { run, handoff } = await scene.prompt(id)
    expect(run).toMatchObject({
      status: 'blocked',
      commands: [{ status: 'passed' }, { status: 'denied' }],
    })
    expect(handoff.self_audit.no_denied_action_ran).toBe(true)
    const audit = await auditSession(scene.deps, id)
    expect(audit.checks.flatMap(({ problems }) => problems)).toEqual([])
  })
})

describe('the result of a command', () => {
  it('contains at most 16,000 characters of a stream: its beginning and its end', async () => {
    using scene = await agentScene()
    const { server, id } = await live(scene, [call('long'), call('short'), say('done')])
    await using _ = server
    const print = (n: number) => ['node', '-e', `process.stdout.write('a'+'-'.repeat(${n - 2})+'z')`]
    await scene.register('long', print(16_001))
    await scene.register('short', print(16_000))
    for (const ref of ['long', 'short']) await scene.grant(ref, id)
    await scene.prompt(id, 'x', false)
    const [long, short] = [1, 2].map((i) => server.requests[i]!.body.messages.at(-1).content as string)
    expect(long).toContain('\n… 1 characters left out …\n')
    expect(long!.replace(/\n….*…\n/, '')).toHaveLength('exit 0\nstdout:\n'.length + 16_000)
    expect(long).toMatch(/^exit 0\nstdout:\na-+\n/)
    expect(long).toMatch(/-z$/)
    expect(short).toHaveLength('exit 0\nstdout:\n'.length + 16_000)
  })

  it('says that a command did not finish within its time limit', async () => {
    using scene = await agentScene()
    const { server, id } = await live(scene, [call('nap'), say('done')])
    await using _ = server
    await scene.register('nap', ['sleep', '60'])
    await scene.grant('nap', id)
    const options = { allowFixtureAction: false, commandMs: 100 }
    const { handoff } = await promptSession(scene.deps, ADA_OPERATOR, id, 'x', options)
    expect(server.requests[1]!.body.messages.at(-1).content).toBe('did not finish: timeout')
    expect(handoff.commands_run).toMatchObject([{ status: 'failed', exit_code: null }])
  })
})

describe('the operator’s hint for a command without a grant', () => {
  it.each([
    ['rm -rf .', /wrote a command instead of a reference.*craik command list$/],
    [`ghp_${'a1B2'.repeat(9)}`, /wrote a command instead of a reference/],
    ['unit-tests', /craik command register unit-tests -- PROGRAM ARGUMENTS$/],
    ['fixture-action', /craik grant create .* --target fixture-action --session-id s1$/],
  ])('for %j contains the next step', async (requested, hint) => {
    using scene = await agentScene()
    const { server, id } = await live(scene, [call(requested), say('never')])
    await using _ = server
    const { run, stopped } = await scene.prompt(id, 'x', false)
    expect(run).toMatchObject({ status: 'blocked', stop_reason: 'sandbox.grant' })
    expect(stopped?.hint).toMatch(hint)
    expect(stopped?.hint).not.toContain('not-a-reference')
  })
})
