import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { CraikError } from '../../errors.ts'
import type { AgentEvent, ToolState } from './agent-events.ts'
import { localAgent } from './local-agent.fixture.ts'
import { type AgentPrompt, promptAgent } from './prompt-agent.ts'

let home: string
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'craik-agent-'))
})
afterEach(() => rmSync(home, { recursive: true, force: true }))

/** Sends a prompt to the fixture. Returns its updates and its permission requests. */
async function prompt(text: string, more: Partial<AgentPrompt> = {}, script?: string) {
  const agent = localAgent(home, script)
  const events: AgentEvent[] = []
  const requests: ToolState[] = []
  const never = new AbortController().signal
  const ended = promptAgent(agent, {
    harness: 'fixture',
    cwd: home,
    text,
    cancel: never,
    kill: never,
    onEvent: (event) => events.push(event),
    permit: async (tool) => {
      requests.push(tool)
      return true
    },
    ...more,
  })
  const end = await ended.catch((error: unknown) => error)
  await agent.ended
  return {
    end,
    events,
    asked: requests,
    said: events.map((each) => (each.type === 'text' ? each.text : '')).join(''),
  }
}

describe('a prompt', () => {
  it('runs the commands that get permission, and reports all updates in order', async () => {
    const {
      end,
      events,
      asked: requests,
      said: output,
    } = await prompt('THINK: hm\nRUN: echo made > proof; echo out\nSAY: there')
    expect(end).toMatchObject({ stopReason: 'end_turn' })
    expect(readFileSync(join(home, 'proof'), 'utf8')).toBe('made\n')
    expect(requests).toMatchObject([{ kind: 'execute', title: 'echo made > proof; echo out' }])
    expect(events[0]).toEqual({ type: 'thinking', text: 'hm' })
    const states = events.flatMap((each) => (each.type === 'tool' ? [each.tool.status] : []))
    expect(states).toEqual(['pending', 'completed'])
    expect(events).toContainEqual(
      expect.objectContaining({ tool: expect.objectContaining({ output: 'out\n' }) }),
    )
    expect(output).toBe('there\nDone.')
  })

  it('does nothing and continues when permission is denied', async () => {
    const { end, said: output } = await prompt('RUN: touch proof', { permit: async () => false })
    expect(end).toMatchObject({ stopReason: 'end_turn' })
    expect(output).toBe('That was refused.\nDone.')
    expect(existsSync(join(home, 'proof'))).toBe(false)
  })

  it('continues an earlier session without reporting its messages again', async () => {
    const first = await prompt('SAY: one')
    const { sessionId } = first.end as { sessionId: string }
    const second = await prompt('SAY: two', { sessionId })
    expect(second.end).toEqual({ sessionId, stopReason: 'end_turn' })
    expect(second.said).toBe('two\nDone.')
  })

  it('fails with a message when its session does not exist', async () => {
    const { end } = await prompt('SAY: x', { sessionId: '00000000-0000-0000-0000-000000000000' })
    expect(end).toMatchObject({ code: 'harness_failed', message: 'fixture: no such session' })
  })

  it('ends as cancelled when the user cancels it', async () => {
    const cancel = new AbortController()
    const { end } = await prompt('SAY: begun\nWAIT', {
      cancel: cancel.signal,
      onEvent: () => cancel.abort(),
    })
    expect(end).toMatchObject({ stopReason: 'cancelled' })
  })

  it('does not wait for the agent when it is killed', async () => {
    const kill = new AbortController()
    const { end } = await prompt('SAY: begun\nWAIT', { kill: kill.signal, onEvent: () => kill.abort() })
    expect(end).toMatchObject({ code: 'interrupted' })
  })

  /**
   * Returns an agent that is slow to save a prompt. With `answersCancel`, it answers the prompt only after a cancel
   * request. Otherwise it saves the prompt only after its input has ended.
   */
  const slowAgent = (answersCancel: boolean) => `
    import { writeFileSync } from 'node:fs'
    const answer = (id, result) => console.log(JSON.stringify({ jsonrpc: '2.0', id, result }))
    const written = Promise.withResolvers()
    let timer
    const write = () => timer = setTimeout(() => written.resolve(writeFileSync(process.env.HOME + '/written', '')), 500)
    let prompt
    const lines = process.getBuiltinModule('node:readline').createInterface({ input: process.stdin })
    lines.on('line', (line) => {
      const { id, method } = JSON.parse(line)
      if (method === 'initialize') answer(id, { protocolVersion: 1, agentCapabilities: {} })
      if (method === 'session/new') answer(id, { sessionId: 's' })
      if (method === 'session/prompt') prompt = id
      if (method === 'session/prompt' && ${answersCancel}) write()
      if (method === 'session/cancel' && ${answersCancel}) written.promise.then(() => answer(prompt, { stopReason: 'cancelled' }))
    })
    lines.on('close', () => { if (!${answersCancel}) write() })`
  const refused = new CraikError('no_login', 'its login is refused')
  const isWritten = () => existsSync(join(home, 'written'))

  it.each([
    ['answers when it is asked to stop', true],
    ['only sees that its input has ended', false],
  ])('that Craik gives up is saved first by an agent that %s', async (_, answersCancel) => {
    const giveUp = new AbortController()
    const { end } = await prompt(
      'x',
      {
        giveUp: giveUp.signal,
        // At this point the session is on record, and the agent has not read the prompt.
        onSession: () => giveUp.abort(refused),
        timeouts: { readMs: 100, cancelMs: answersCancel ? 10_000 : 300 },
      },
      slowAgent(answersCancel),
    )
    expect(end).toBe(refused)
    expect(isWritten()).toBe(true)
  })

  it('that Craik gives up is not cancelled before the agent can read it', async () => {
    const giveUp = new AbortController()
    const more = { giveUp: giveUp.signal, onSession: () => giveUp.abort(refused) }
    const drops = `${slowAgent(true)}
      lines.on('line', (line) => JSON.parse(line).method === 'session/cancel' && (clearTimeout(timer), written.resolve()))`
    expect((await prompt('x', more, drops)).end).toBe(refused)
    expect(isWritten()).toBe(true)
  })

  it('that is cancelled is saved by an agent that is slow to stop', async () => {
    const cancel = new AbortController()
    const { end } = await prompt(
      'x',
      { cancel: cancel.signal, onSession: () => cancel.abort(), timeouts: { cancelMs: 300 } },
      slowAgent(false),
    )
    expect(end).toMatchObject({ code: 'interrupted' })
    expect(isWritten()).toBe(true)
  })

  it('that ends before it has a session records no session', async () => {
    for (const name of ['cancel', 'giveUp'] as const) {
      const over = new AbortController()
      over.abort(refused)
      let session: string | undefined
      const { end } = await prompt('x', {
        [name]: over.signal,
        onSession: (id) => {
          session = id
        },
      })
      expect(end).toMatchObject({ code: name === 'cancel' ? 'interrupted' : 'no_login' })
      expect(session).toBeUndefined()
    }
  })

  it('that is killed does not wait for an agent that does not exit', async () => {
    const kill = new AbortController()
    const hangs = `${slowAgent(true)}
      setInterval(() => {}, 1000)`
    const giveUp = new AbortController()
    const pending = prompt(
      'x',
      {
        giveUp: giveUp.signal,
        kill: kill.signal,
        onSession: () => giveUp.abort(refused),
        timeouts: { readMs: 100, exitMs: 600_000 },
      },
      hangs,
    )
    await expect.poll(isWritten, { timeout: 15_000 }).toBe(true)
    await sleep(200)
    kill.abort()
    expect((await pending).end).toMatchObject({ code: 'no_login' })
  })

  it('fails with the exit status of an agent that exits', async () => {
    expect((await prompt('FAIL')).end).toMatchObject({
      code: 'harness_failed',
      message: 'fixture: the agent exited with 3',
    })
  })
})

describe('the options of a session', () => {
  const TERMS = { meta: { own: { options: 1 } }, modeId: 'careful' }
  /**
   * Returns an agent that answers with the requests it received and reports its modes. A session can start in a mode
   * that a project chose.
   */
  const agentScript = (mode: string) =>
    `
    const said = []
    const answer = (id, result) => console.log(JSON.stringify({ jsonrpc: '2.0', id, result }))
    const modes = { currentModeId: '${mode}', availableModes: [{ id: '${mode}', name: 'x' }, { id: 'careful', name: 'y' }] }
    require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
      const { id, method, params } = JSON.parse(line)
      said.push(method + ' ' + JSON.stringify(params._meta ?? params.modeId ?? null))
      if (method === 'initialize') answer(id, { protocolVersion: 1, agentCapabilities: { loadSession: true } })
      if (method === 'session/new') answer(id, { sessionId: 's', modes })
      if (method === 'session/load') answer(id, { modes })
      if (method === 'session/set_mode') answer(id, {})
      if (method !== 'session/prompt') return
      const update = { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: said.join('|') } }
      console.log(JSON.stringify({ jsonrpc: '2.0', method: 'session/update', params: { sessionId: 's', update } }))
      answer(id, { stopReason: 'end_turn' })
    })`.replace('require(', 'process.getBuiltinModule(')

  it.each([
    ['begun', {}, 'session/new'],
    ['taken up', { sessionId: 's' }, 'session/load'],
  ])(
    'are sent when a session is %s, and its mode is set before the first prompt',
    async (_, more, method) => {
      const { said: output } = await prompt('x', { ...more, terms: TERMS }, agentScript('loose'))
      expect(output.split('|').slice(1)).toEqual([
        `${method} {"own":{"options":1}}`,
        'session/set_mode "careful"',
        'session/prompt null',
      ])
    },
  )

  it('do not change a mode that is already set, and are not sent when there are none', async () => {
    const right = await prompt('x', { terms: TERMS }, agentScript('careful'))
    expect(right.said).not.toContain('set_mode')
    const none = await prompt('x', {}, agentScript('loose'))
    expect(none.said).toBe('initialize null|session/new null|session/prompt null')
  })
})

describe('an agent that', () => {
  it.each([
    ['never answers', 'setInterval(() => {}, 1000)', /not ready within/],
    ['answers garbage and ends', 'console.log("what?"); process.exit(1)', /exited with 1/],
    [
      'complains and ends',
      'console.error("no such thing as a model"); process.exit(1)',
      /no such thing as a model/,
    ],
    [
      'does not know the protocol',
      'process.stdin.on("data", (d) => console.log(JSON.stringify({jsonrpc:"2.0",id:JSON.parse(d).id,result:{protocolVersion:9}})))',
      /version 9/,
    ],
  ])('%s causes an error within the time limit', async (_, script, message) => {
    const { end } = await prompt('SAY: x', { timeouts: { readyMs: 1500 } }, script)
    expect(end).toMatchObject({ code: 'harness_failed', message: expect.stringMatching(message) })
  })

  it('answers a request that was never sent cannot write to the terminal', async () => {
    const reported: unknown[] = []
    const { error } = console
    console.error = (...words: unknown[]) => void reported.push(words)
    try {
      const odd = 'console.log(JSON.stringify({jsonrpc:"2.0",id:"x\\u001b]0;y\\u0007",result:{}}))'
      const script = `${odd}; setTimeout(() => process.exit(1), 200)`
      expect((await prompt('SAY: x', {}, script)).end).toMatchObject({ code: 'harness_failed' })
    } finally {
      console.error = error
    }
    expect(reported).toEqual([])
  })

  it('reports a missing login causes a login error', async () => {
    const answer = '{jsonrpc:"2.0",id:JSON.parse(d).id,error:{code:-32000,message:"Authentication required"}}'
    const script = `process.stdin.on("data", (d) => console.log(JSON.stringify(${answer})))`
    expect((await prompt('SAY: x', {}, script)).end).toMatchObject({ code: 'no_login' })
  })

  it('calls a method that it may not use gets the error for an unknown method', async () => {
    const ask =
      '{jsonrpc:"2.0",id:"x",method:"fs/write_text_file",params:{sessionId:"s",path:"/x",content:""}}'
    const script = `process.stdin.on("data", (d) => {
      const { id, method, error } = JSON.parse(d)
      if (id === "x") { console.error(error.code); process.exit(1) }
      if (method === "initialize") console.log(JSON.stringify(${ask}))
    })`
    expect((await prompt('SAY: x', {}, script)).end).toMatchObject({
      message: expect.stringContaining('-32601'),
    })
  })

  it('sends endless requests without reading the responses is given up', async () => {
    const script = `import { writeSync } from "node:fs"
      const line = JSON.stringify({ jsonrpc: "2.0", id: "x".repeat(60000), method: "y" }) + "\\n"
      process.stdin.once("data", () => { process.stdin.pause(); for (;;) try { writeSync(1, line) } catch (e) { if (e.code !== "EAGAIN") throw e } })`
    const { end } = await prompt('SAY: x', { timeouts: { readyMs: 15_000 } }, script)
    expect(end).toMatchObject({ code: 'harness_failed', message: expect.stringContaining('does not read') })
  })

  it('falls silent during a turn is given up', async () => {
    const { end } = await prompt('SAY: x\nWAIT', { timeouts: { silentMs: 200 } })
    expect(end).toMatchObject({
      code: 'harness_failed',
      message: expect.stringContaining('sent nothing for'),
    })
  })
})
