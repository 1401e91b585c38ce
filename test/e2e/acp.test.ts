/**
 * An editor and `craik acp`: sessions in real sandboxes, permission requests, changes of the agent, and a compromised
 * agent.
 */
import { existsSync, mkdirSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Editor } from '../harnesses/editor.ts'
import { HOSTILE_AGENT } from '../harnesses/hostile-agent.ts'
import { AGENT_IN_PLACE, SLOW_TO_LEAVE } from '../harnesses/slow-agent.ts'
import { canBe, SandboxHome } from '../sandbox-home.ts'

let home: SandboxHome
beforeAll(async () => {
  home = await SandboxHome.open({ identity: canBe('root') ? 'root' : 'user' })
})
afterAll(() => home[Symbol.asyncDispose]())

interface RunJson {
  readonly id: string
  readonly status: string
  readonly stop_reason: string | null
  readonly changed_files: number | null
  readonly resumed_from: string | null
  readonly sandbox_id: string
  readonly workspace: string | null
}

const runs = () => home.json<RunJson[]>(['run', 'list', '--prompts', '--format', 'json'])
let folders = 0
const folderWith = (files: Readonly<Record<string, string>> = { 'a.txt': 'a\n' }) =>
  home.workspace(`folder-${++folders}`, files)

async function openEditor(args: readonly string[] = []): Promise<Editor> {
  const editor = new Editor(home, ['--harness', 'fixture', ...args])
  await editor.initialize()
  return editor
}

describe('an editor session', () => {
  it('runs an agent in a sandbox with a copy of the folder; each prompt is a run, and prints how to apply its changes', async () => {
    const folder = folderWith()
    await using editor = await openEditor()
    const { sessionId } = await editor.begin(folder)
    expect(await editor.prompt(sessionId, 'THINK: hm\nRUN: echo b >> a.txt; pwd')).toEqual({
      stopReason: 'end_turn',
    })
    expect(editor.tools().at(-1)).toMatchObject({ status: 'completed' })
    expect(readFileSync(join(folder, 'a.txt'), 'utf8')).toBe('a\n')
    const [first] = await runs()
    expect(first).toMatchObject({ status: 'completed', changed_files: 1, workspace: folder })
    expect(editor.textOf(sessionId)).toContain(`craik run apply ${first!.id}`)

    expect(await editor.prompt(sessionId, 'RUN: echo c >> a.txt')).toEqual({ stopReason: 'end_turn' })
    const [second] = await runs()
    expect(second).toMatchObject({ resumed_from: first!.id, sandbox_id: first!.sandbox_id })
    expect((await home.run(['run', 'apply', second!.id])).code).toBe(0)
    expect(readFileSync(join(folder, 'a.txt'), 'utf8')).toBe('a\nb\nc\n')

    expect(editor.stderr).toMatch(/MCP servers are not available in the sandbox/)
    expect([editor.strange, editor.reached, editor.asked]).toEqual([[], [], []])
    const receipts = await home.json<{ body: { operation: string } }[]>([
      'receipts',
      'list',
      '--run',
      first!.id,
      '--format',
      'json',
    ])
    const operations = receipts.map(({ body }) => body.operation)
    expect(operations).toEqual(expect.arrayContaining(['begin', 'execute', 'end']))
  })

  it('with --apply applies the changes to the folder after each prompt, and reports a conflict', async () => {
    const folder = folderWith()
    await using editor = await openEditor(['--apply'])
    const { sessionId } = await editor.begin(folder)
    await editor.prompt(sessionId, 'RUN: echo new > made.txt')
    expect(readFileSync(join(folder, 'made.txt'), 'utf8')).toBe('new\n')
    writeFileSync(join(folder, 'a.txt'), 'mine\n')
    await editor.prompt(sessionId, 'RUN: echo theirs > a.txt')
    expect(readFileSync(join(folder, 'a.txt'), 'utf8')).toBe('mine\n')
    expect(editor.textOf(sessionId)).toMatch(/changed here too: `a\.txt`/)
  })

  it('shows host paths to the editor, and sandbox paths to the agent', async () => {
    const folder = folderWith()
    await using editor = await openEditor()
    const { sessionId } = await editor.begin(folder)
    await editor.prompt(sessionId, `RUN: cat ${folder}/a.txt && test "$PWD" != "${folder}"`)
    expect(editor.tools()[0]).toMatchObject({ title: expect.stringContaining(`cat ${folder}/a.txt`) })
    expect(editor.tools().at(-1)).toMatchObject({ status: 'failed' })
    await editor.prompt(sessionId, `RUN: cat ${folder}/a.txt`)
    expect(editor.tools().at(-1)).toMatchObject({
      status: 'completed',
      content: [{ content: { text: 'a\n' } }],
    })
  })

  it('with --in-place works on the folder itself', async () => {
    const folder = folderWith()
    await using editor = await openEditor(['--in-place'])
    const { sessionId } = await editor.begin(folder)
    await editor.prompt(sessionId, 'RUN: echo b >> a.txt')
    expect(readFileSync(join(folder, 'a.txt'), 'utf8')).toBe('a\nb\n')
    expect(editor.textOf(sessionId)).toBe('Done.')
    await editor.agent.request('session/close', { sessionId })
    await expect(editor.prompt(sessionId, 'SAY: x')).rejects.toMatchObject({ code: -32002 })
  })

  it('can begin after the supervisor could not be started', async () => {
    await home.json(['sandbox', 'list'])
    await home.json(['supervisor', 'stop'])
    const log = join(home.home, 'state/supervisor.log')
    await using editor = await openEditor()
    rmSync(log, { force: true })
    mkdirSync(log)
    await expect(editor.begin(folderWith())).rejects.toMatchObject({
      message: expect.stringContaining('cannot open the supervisor’s log'),
    })
    rmdirSync(log)
    expect(await editor.begin(folderWith())).toMatchObject({ sessionId: expect.any(String) })
  })

  it('asks for permission in the editor, and follows the answer', async () => {
    const folder = folderWith()
    await using editor = await openEditor(['--permissions', 'ask'])
    const { sessionId } = await editor.begin(folder)
    editor.answer = 'reject'
    await editor.prompt(sessionId, 'RUN: touch no')
    expect(editor.textOf(sessionId)).toContain('That was refused.')
    editor.answer = 'allow'
    await editor.prompt(sessionId, 'RUN: test ! -e no && touch yes')
    expect(editor.asked).toMatchObject([
      { sessionId, toolCall: { kind: 'execute', title: 'touch no' } },
      { sessionId, toolCall: { title: 'test ! -e no && touch yes' } },
    ])
    expect(editor.tools().at(-1)).toMatchObject({ status: 'completed' })
    const [second, first] = await runs()
    expect([first!.changed_files, second!.changed_files]).toEqual([0, 1])
    expect(editor.stderr).toMatch(/execute denied by .* receipt rcpt_/)
  })

  it('can be cancelled while the agent works and while it asks, and continues afterwards', async () => {
    await using editor = await openEditor(['--permissions', 'ask'])
    const { sessionId } = await editor.begin(folderWith())
    const working = editor.prompt(sessionId, 'SAY: begun\nWAIT')
    await editor.until(() => editor.textOf(sessionId).includes('begun'))
    await expect(editor.prompt(sessionId, 'SAY: too')).rejects.toThrow(/already running/)
    await editor.agent.notify('session/cancel', { sessionId })
    expect(await working).toEqual({ stopReason: 'cancelled' })
    editor.answer = undefined
    const asking = editor.prompt(sessionId, 'RUN: touch no')
    await editor.until(() => editor.asked.length > 0)
    await editor.agent.notify('session/cancel', { sessionId })
    expect(await asking).toEqual({ stopReason: 'cancelled' })
    expect((await runs()).slice(0, 2)).toMatchObject([{ status: 'cancelled' }, { status: 'cancelled' }])
    expect(await editor.prompt(sessionId, 'SAY: still here')).toEqual({ stopReason: 'end_turn' })
  })

  it('can be resumed by another editor, by session id or run id, with the whole conversation', async () => {
    const folder = folderWith()
    let known = ''
    {
      await using before = await openEditor()
      known = (await before.begin(folder)).sessionId
      await before.prompt(known, 'RUN: echo first > proof')
    }
    const [first] = await runs()
    await using editor = await openEditor()
    const load = (sessionId: string, cwd = folder) =>
      editor.agent.request('session/load', { sessionId, cwd, mcpServers: [] })
    await load(known)
    expect(editor.heard).toMatchObject([
      {
        sessionId: known,
        update: {
          sessionUpdate: 'user_message_chunk',
          content: { text: expect.stringContaining('echo first') },
        },
      },
    ])
    await editor.prompt(known, 'RUN: cat proof')
    expect(editor.tools().at(-1)).toMatchObject({ content: [{ content: { text: 'first\n' } }] })
    expect((await runs())[0]).toMatchObject({ resumed_from: first!.id, changed_files: 1 })

    await load(first!.id)
    expect(await editor.prompt(first!.id, 'SAY: x')).toEqual({ stopReason: 'end_turn' })
    await expect(load('sbx_01JCQ3V8Z0W4N5T6R7Y8K9M2PD.none')).rejects.toMatchObject({ code: -32002 })
    await expect(load(known, home.folder)).rejects.toThrow(/another folder/)
  })

  it('stops a prompt that exceeds its timeout, and reports it', async () => {
    await using editor = await openEditor(['--timeout', '2s'])
    const { sessionId } = await editor.begin(folderWith())
    await expect(editor.prompt(sessionId, 'WAIT')).rejects.toThrow(/did not finish within 2 s/)
    expect((await runs())[0]).toMatchObject({ status: 'failed', stop_reason: 'timeout' })
    expect(await editor.prompt(sessionId, 'SAY: on')).toEqual({ stopReason: 'end_turn' })
  })

  it('runs with the longest timeout', async () => {
    await using editor = await openEditor(['--timeout', '7d'])
    const { sessionId } = await editor.begin(folderWith())
    expect(await editor.prompt(sessionId, 'SAY: on')).toEqual({ stopReason: 'end_turn' })
  })

  it('continues after its agent exited', async () => {
    await using editor = await openEditor()
    const { sessionId } = await editor.begin(folderWith())
    await expect(editor.prompt(sessionId, 'FAIL')).rejects.toThrow(/exited with 3/)
    expect(await editor.prompt(sessionId, 'SAY: again')).toEqual({ stopReason: 'end_turn' })
    expect(editor.textOf(sessionId)).toBe('again\nDone.')
  })
})

describe('an editor', () => {
  it('that disconnects during a prompt ends the agent and its run, and the sandbox stays', async () => {
    const editor = await openEditor()
    const { sessionId } = await editor.begin(folderWith())
    const working = editor.prompt(sessionId, 'SAY: begun\nWAIT').catch(() => 'hung up')
    await editor.until(() => editor.textOf(sessionId).includes('begun'))
    expect(await editor.hangUp()).toBe(0)
    expect(await working).toBe('hung up')
    await expectRunEnded()
  })

  it('that disconnects gives the agent time to record the conversation, during a prompt and after it', async () => {
    const made = await home.create(['--workspace', folderWith()])
    expect(await made.exec(['sh', '-c', AGENT_IN_PLACE, SLOW_TO_LEAVE])).toMatchObject({ code: 0 })
    for (const [reply, text] of [
      ['Done.', 'SAY: a'],
      ['begun', 'SAY: begun\nWAIT'],
    ] as const) {
      const editor = await openEditor(['--sandbox', made.id])
      const { sessionId } = await editor.begin(home.folder)
      const pending = editor.prompt(sessionId, text).catch(() => 'hung up')
      await editor.until(() => editor.textOf(sessionId).includes(reply))
      if (reply === 'Done.') await pending
      await editor.hangUp()
      expect(await made.exec(['sh', '-c', 'cat ~/left && rm ~/left'])).toMatchObject({ stdout: 'in order' })
    }
  })

  it('that ends craik with a signal ends the agent and its run, too', async () => {
    const editor = await openEditor()
    const { sessionId } = await editor.begin(folderWith())
    const working = editor.prompt(sessionId, 'SAY: begun\nWAIT').catch(() => 'ended')
    await editor.until(() => editor.textOf(sessionId).includes('begun'))
    await editor.end('SIGTERM')
    await working
    await expectRunEnded()
  })

  it('without a login gets an error that says how to log in', async () => {
    await using editor = new Editor(home, ['--harness', 'codex'])
    const { authMethods, agentCapabilities } = await editor.initialize()
    expect(agentCapabilities).toMatchObject({ loadSession: true })
    const wanted = { code: -32000, message: expect.stringContaining('codex login') }
    await expect(editor.begin(folderWith())).rejects.toMatchObject(wanted)
    const methodId = authMethods![0]!.id
    await expect(editor.agent.request('authenticate', { methodId })).rejects.toMatchObject(wanted)
  })

  it('that sends nothing starts nothing, and an invalid message gets a parse error', async () => {
    expect(await home.run(['acp', '--harness', 'fixture'], { input: '' })).toEqual({
      code: 0,
      stdout: '',
      stderr: '',
    })
    const { code, stdout } = await home.run(['acp', '--harness', 'fixture'], { input: 'what?\n' })
    expect([code, JSON.parse(stdout)]).toMatchObject([0, { error: { code: -32700 } }])
  })
})

/** Checks that the newest run is cancelled, and that its sandbox runs without the agent. */
async function expectRunEnded(): Promise<void> {
  const [run] = await runs()
  expect(run).toMatchObject({ status: 'cancelled' })
  const { stdout } = await home
    .client()
    .sandboxes.exec(run!.sandbox_id, { argv: ['sh', '-c', 'cat /proc/[0-9]*/cmdline | tr "\\0" " "'] })
  expect(stdout.data).not.toContain('agent.mjs')
}

describe('a compromised agent', () => {
  let folder: string
  let sandbox: string
  beforeAll(async () => {
    folder = folderWith()
    const made = await home.create(['--workspace', folder, '--in-place'])
    sandbox = made.id
    expect(await made.exec(['sh', '-c', AGENT_IN_PLACE, HOSTILE_AGENT])).toMatchObject({ code: 0 })
  })

  it('reaches nothing on the host through the editor, and names no path outside the workspace', async () => {
    await using editor = await openEditor(['--sandbox', sandbox])
    const { sessionId } = await editor.begin(folder)
    await editor.prompt(sessionId, `${folder}/a.txt`)
    const output = editor.textOf(sessionId)
    expect(output).toContain('heard /workspace/home/project/a.txt')
    expect(output).not.toContain('DONE')
    expect(output.match(/-32601/g)).toHaveLength(7)
    expect(editor.reached).toEqual([])
    expect(existsSync(join(folder, 'planted'))).toBe(false)
    const host = join(folder, 'a.txt')
    expect(editor.tools()).toEqual([
      {
        sessionUpdate: 'tool_call',
        toolCallId: 't1',
        kind: 'edit',
        status: 'completed',
        title: `Edit ${host}`,
        locations: [{ path: host, line: 3 }],
        content: [
          { type: 'diff', path: host, oldText: 'a', newText: 'b' },
          { type: 'content', content: { type: 'text', text: 'in the sandbox, /etc/passwd:\nroot::0:0' } },
          { type: 'content', content: { type: 'resource_link', name: 'in', uri: `file://${host}#L3` } },
          { type: 'content', content: { type: 'text', text: 'file:///etc/passwd' } },
          { type: 'content', content: { type: 'text', text: 'command:workbench.action.terminal.new' } },
        ],
        rawInput: { file_path: host, other: '/etc/passwd' },
      },
    ])
    expect(JSON.stringify(editor.heard)).not.toContain('_meta')
  })

  it('is stopped when its message has no end; a new agent gets the next prompt, in the selected mode', async () => {
    await using editor = await openEditor(['--sandbox', sandbox])
    const { sessionId, modes } = await editor.begin(folder)
    expect(modes).toEqual({
      currentModeId: 'free',
      availableModes: [
        { id: 'free', name: 'Free' },
        { id: 'plan', name: 'Plan' },
      ],
    })
    await editor.agent.request('session/set_mode', { sessionId, modeId: 'plan' })
    await editor.prompt(sessionId, 'MODE')
    await expect(editor.prompt(sessionId, 'HUGE')).rejects.toThrow(/fixture: /)
    await editor.prompt(sessionId, 'MODE')
    expect(editor.textOf(sessionId)).toBe('mode plan;mode plan;')
  })

  it('that sends a flood of messages is read to the end, piece by piece', async () => {
    await using editor = await openEditor(['--sandbox', sandbox])
    const { sessionId } = await editor.begin(folder)
    expect(await editor.prompt(sessionId, 'FLOOD')).toEqual({ stopReason: 'end_turn' })
    expect(editor.textOf(sessionId).length).toBeGreaterThan(500 * 64 * 1024)
  })

  it('that ignores a cancel request is stopped', async () => {
    await using editor = await openEditor(['--sandbox', sandbox])
    const { sessionId } = await editor.begin(folder)
    const working = editor.prompt(sessionId, 'WAIT')
    await editor.until(() => editor.textOf(sessionId) === 'waits')
    await editor.agent.notify('session/cancel', { sessionId })
    expect(await working).toEqual({ stopReason: 'cancelled' })
    await expectRunEnded()
  })
})
