/** `craik prompt` with the fixture agent, which calls no model: what a user types and sees, and errors. */
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ERRORS } from '../../src/errors.ts'
import { environmentOf } from '../craik.ts'
import { AGENT_IN_PLACE, SLOW_TO_LEAVE } from '../harnesses/slow-agent.ts'
import { SandboxHome } from '../sandbox-home.ts'
import { Terminal } from './interactive-user.ts'

interface Line {
  readonly type: string
  readonly [name: string]: unknown
}

let home: SandboxHome
let folders = 0

beforeAll(async () => {
  home = await SandboxHome.open({ identity: 'user' })
})
afterAll(() => home[Symbol.asyncDispose]())

const project = () => home.workspace(`project-${folders++}`, { 'a.txt': 'one\n', 'b.txt': 'as it was\n' })

async function prompt(text: string, ...args: string[]) {
  const ran = await home.run(['prompt', text, '--harness', 'fixture', ...args])
  return { ...ran, lines: linesOf(ran.stdout) }
}

function linesOf(text: string): Line[] {
  return text
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Line)
}

const last = (lines: readonly Line[]) => lines.at(-1)!
const runOf = (lines: readonly Line[]) => String(lines[0]!.run_id)

/** Starts a prompt that continues until it is stopped. */
function startPromptProcess(text: string, folder: string) {
  const { node, main } = home.program
  const child: ChildProcess = spawn(
    node,
    [main, 'prompt', text, '--harness', 'fixture', '--workspace', folder],
    { cwd: home.folder, env: environmentOf(home), ...home.user, stdio: ['ignore', 'pipe', 'pipe'] },
  )
  const lines: Line[] = []
  const waitForLine = (want: (line: Line) => boolean) =>
    new Promise<void>((found) => {
      const reader = createInterface({ input: child.stdout! })
      reader.on('line', (line) => {
        lines.push(JSON.parse(line) as Line)
        if (want(lines.at(-1)!)) found()
      })
    })
  const ended = new Promise<number | null>((end) => child.once('close', end))
  return { child, lines, seen: waitForLine, ended }
}

describe('a prompt', () => {
  it('does not change the folder; its changes are stored, shown and applied by command', async () => {
    const folder = project()
    const { code, lines, stderr } = await prompt(
      'RUN: echo two >> a.txt; rm b.txt; echo new > c.txt\nSAY: there',
      '--workspace',
      folder,
    )
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(lines.map(({ type }) => type)).toEqual([
      'started',
      'tool',
      'permission',
      'tool',
      'text',
      'text',
      'ended',
    ])
    expect(lines[2]).toMatchObject({ allowed: true, kind: 'execute', rule: 'automation.granted' })
    expect(last(lines)).toMatchObject({
      status: 'completed',
      stop_reason: 'end_turn',
      changed: [
        { path: 'a.txt', change: 'changed' },
        { path: 'b.txt', change: 'removed' },
        { path: 'c.txt', change: 'added' },
      ],
    })
    expect(readFileSync(join(folder, 'a.txt'), 'utf8')).toBe('one\n')
    const diff = await home.run(['run', 'diff', runOf(lines)])
    expect(diff.stdout).toContain('+two')
    expect((await home.run(['run', 'apply', runOf(lines)])).code).toBe(0)
    expect(readFileSync(join(folder, 'a.txt'), 'utf8')).toBe('one\ntwo\n')
    expect(existsSync(join(folder, 'b.txt'))).toBe(false)
  })

  it('continues another prompt, with the changes of both that were not applied yet', async () => {
    const folder = project()
    const first = await prompt('RUN: echo x > x.txt', '--workspace', folder)
    const args = ['prompt', 'RUN: echo y > y.txt', '--resume', runOf(first.lines), '--apply']
    const second = await home.run(args)
    expect(second).toMatchObject({ code: 0 })
    expect(readFileSync(join(folder, 'x.txt'), 'utf8') + readFileSync(join(folder, 'y.txt'), 'utf8')).toBe(
      'x\ny\n',
    )
    const runs = await home.json<{ id: string; resumed_from: string | null; status: string }[]>([
      'run',
      'list',
      '--prompts',
      '--format',
      'json',
    ])
    expect(runs[0]).toMatchObject({ resumed_from: runOf(first.lines), status: 'completed' })
    expect(await home.json(['run', 'show', runs[0]!.id, '--format', 'json'])).toMatchObject({
      id: runs[0]!.id,
    })
  })

  it('continues a prompt whose changes were applied, without a conflict with them', async () => {
    const folder = project()
    const first = await prompt('RUN: echo two >> a.txt; echo x > x.txt', '--workspace', folder)
    expect((await home.run(['run', 'apply', runOf(first.lines)])).code).toBe(0)
    const second = await home.run(['prompt', 'RUN: echo three >> a.txt', '--resume', runOf(first.lines)])
    const lines = linesOf(second.stdout)
    expect(last(lines)).toMatchObject({ changed: [{ path: 'a.txt', change: 'changed' }] })
    expect((await home.run(['run', 'diff', runOf(lines)])).stdout).toContain('+three')
    expect((await home.run(['run', 'apply', runOf(lines)])).code).toBe(0)
    expect(readFileSync(join(folder, 'a.txt'), 'utf8')).toBe('one\ntwo\nthree\n')
  })

  it('whose changes were applied can be pruned, others only with --hard', async () => {
    interface Pruned {
      readonly run_id: string
      readonly removed: boolean
    }
    const { lines } = await prompt('RUN: echo two >> a.txt', '--workspace', project())
    const run = runOf(lines)
    const pruneRun = async (...args: string[]) =>
      (await home.json<Pruned[]>(['run', 'prune', ...args, '--format', 'json'])).find(
        ({ run_id }) => run_id === run,
      )
    expect(await pruneRun('--apply')).toBeUndefined()
    expect(await pruneRun('--hard')).toMatchObject({ removed: false, spare: false })
    expect((await home.run(['run', 'apply', run])).code).toBe(0)
    expect(await pruneRun()).toMatchObject({ removed: false, spare: true })
    expect((await home.run(['run', 'diff', run])).stdout).toContain('+two')
    expect(await pruneRun('--apply')).toMatchObject({ removed: true })
    expect(existsSync(join(home.home, 'runs', run))).toBe(false)
    expect(await home.run(['run', 'diff', run])).toMatchObject({ code: 3 })
    expect(await home.json(['run', 'show', run, '--format', 'json'])).toMatchObject({ changed_files: 1 })
  })

  it('whose sandbox was deleted cannot be resumed; the error suggests a new prompt and names the stored changes', async () => {
    const { lines } = await prompt('RUN: echo two >> a.txt', '--workspace', project())
    await home.json(['sandbox', 'delete', '--yes', String(lines[0]!.sandbox_id)])
    const { code, stdout, stderr } = await home.run(['prompt', 'hi', '--resume', runOf(lines)])
    expect({ code, stdout }).toEqual({ code: 3, stdout: '' })
    expect(stderr).toContain('was deleted, with the agent’s session\n')
    expect(stderr).toContain('craik prompt "…" --harness fixture')
    expect(stderr).toContain(`craik run diff ${runOf(lines)}`)
  })

  it('in a sandbox without a known original folder prints a command that copies its changes', async () => {
    const made = ['sandbox', 'create', '--workspace', project(), '--format', 'json']
    const { name } = await home.json<{ name: string }>(made)
    const { code, stdout } = await home.run([
      'prompt',
      'RUN: echo new > new.txt',
      '--harness',
      'fixture',
      '--sandbox',
      name,
      '--format',
      'table',
    ])
    expect(code).toBe(0)
    const [, from, to] = /craik sandbox cp (\S+) (\S+)\n/.exec(stdout)!
    expect((await home.run(['sandbox', 'cp', from!, to!])).code).toBe(0)
    expect(readFileSync(join(home.folder, to!, 'new.txt'), 'utf8')).toBe('new\n')
  })

  it.each(['deny', 'read-only', 'ask'])(
    'with --permissions %s and no terminal runs nothing, and every denial has a receipt',
    async (mode) => {
      const { code, lines } = await prompt(
        'RUN: echo no > no.txt',
        '--permissions',
        mode,
        '--workspace',
        project(),
      )
      expect(code).toBe(0)
      const decided = lines.find(({ type }) => type === 'permission')!
      expect(decided).toMatchObject({ allowed: false })
      expect(last(lines)).toMatchObject({ changed: [], usage: { denied: 1 } })
      const receipt = await home.json<{ body: object }>([
        'receipts',
        'show',
        String(decided.receipt_id),
        '--format',
        'json',
      ])
      expect(JSON.stringify(receipt)).toContain('agent.act')
      expect(JSON.stringify(receipt)).not.toContain('no.txt')
    },
  )

  describe('with --permissions ask, at a terminal', () => {
    const startPrompt = (folder: string) =>
      new Terminal(
        home,
        [
          'prompt',
          'RUN: echo first > one.txt\nRUN: echo second > two.txt',
          '--harness',
          'fixture',
          '--permissions',
          'ask',
          '--workspace',
          folder,
        ],
        120,
        40,
      )
    const QUESTION = 'allow it? [y/N] '
    const questions = (screen: string) => screen.split(QUESTION).length - 1
    const times = (count: number) => (screen: string) => (questions(screen) >= count ? QUESTION : '')

    it('asks about each action, and a yes allows only that action', async () => {
      using terminal = startPrompt(project())
      await terminal.says(QUESTION, undefined, times(1))
      expect(terminal.screen).toContain('? execute: ')
      terminal.typeText('y\r')
      await terminal.says(QUESTION, undefined, times(2))
      terminal.typeText('\r')
      expect(await terminal.exited).toBe(0)
      expect(terminal.screen).toMatch(/changed +one\.txt/)
      expect(terminal.screen).not.toMatch(/changed .*two\.txt/)
      const run = /craik run apply (run_\w+)/.exec(terminal.screen)![1]!
      type Decided = { body: { capability: string; phase: string; status?: string } }
      const receipts = await home.json<Decided[]>(['receipts', 'list', '--run', run])
      const ends = receipts
        .map(({ body }) => body)
        .filter(({ capability, phase }) => capability === 'agent.act' && phase !== 'begin')
      expect(ends.map(({ status }) => status).sort()).toEqual(['denied', 'passed'])
    })

    it('does not take earlier input as the answer to a question', async () => {
      using terminal = startPrompt(project())
      terminal.typeText('y\ry\ry')
      await terminal.says(QUESTION, undefined, times(1))
      terminal.typeText('\r')
      await terminal.says(QUESTION, undefined, times(2))
      terminal.typeText('\r')
      expect(await terminal.exited).toBe(0)
      expect(terminal.screen).toMatch(/changed +nothing/)
    })

    it('is cancelled by Ctrl-C at a question, and runs nothing', async () => {
      using terminal = startPrompt(project())
      await terminal.says(QUESTION, undefined, times(1))
      terminal.typeText('\u0003')
      expect(await terminal.exited).toBe(130)
      expect(terminal.screen).not.toMatch(/changed .*one\.txt/)
    })
  })

  it('that is interrupted is cancelled, and its changes until then are stored', async () => {
    const folder = project()
    const { child, lines, seen, ended } = startPromptProcess(
      'RUN: echo half > half.txt\nSAY: begun\nWAIT',
      folder,
    )
    await seen(({ type }) => type === 'text')
    child.kill('SIGINT')
    expect(await ended).toBe(130)
    expect(last(lines)).toMatchObject({ status: 'cancelled', changed: [{ path: 'half.txt' }] })
  })

  it('that exceeds its timeout is stopped, and its agent has time to record the conversation', async () => {
    const made = await home.create(['--workspace', project()])
    expect(await made.exec(['sh', '-c', AGENT_IN_PLACE, SLOW_TO_LEAVE])).toMatchObject({ code: 0 })
    const { code, stderr, lines } = await prompt('SAY: begun\nWAIT', '--sandbox', made.id, '--timeout', '15s')
    expect({ code, stderr }).toMatchObject({
      code: ERRORS.timeout.exit,
      stderr: expect.stringContaining('fixture did not finish within 15 s'),
    })
    expect(last(lines)).toMatchObject({ status: 'failed', stop_reason: 'timeout' })
    expect(await made.exec(['sh', '-c', 'cat ~/left'])).toMatchObject({ stdout: 'in order' })
  })

  it('continues when the supervisor is killed', async () => {
    const folder = project()
    const { lines, seen, ended } = startPromptProcess(
      'SAY: begun\nRUN: sleep 3; echo after > after.txt',
      folder,
    )
    await seen(({ type }) => type === 'permission')
    const { pid } = await home.json<{ pid: number }>(['supervisor', 'status', '--format', 'json'])
    process.kill(pid, 'SIGKILL')
    expect(await ended).toBe(0)
    expect(last(lines)).toMatchObject({ status: 'completed', changed: [{ path: 'after.txt' }] })
  })

  it('whose process is killed is reported as interrupted', async () => {
    const { child, seen, ended, lines } = startPromptProcess('SAY: begun\nWAIT', project())
    await seen(({ type }) => type === 'text')
    const diff = () => home.run(['run', 'diff', runOf(lines)])
    expect(await diff()).toMatchObject({ code: 3, stderr: expect.stringContaining('saved when it ends') })
    child.kill('SIGKILL')
    await ended
    expect(await home.json(['run', 'show', runOf(lines), '--format', 'json'])).toMatchObject({
      status: 'interrupted',
    })
    expect(await diff()).toMatchObject({
      code: 3,
      stderr: expect.stringContaining(`craik prompt --resume ${runOf(lines)} "continue"`),
    })
  })

  it('is mentioned by run list in a table, and not in JSON', async () => {
    await prompt('SAY: hello', '--workspace', project())
    const shown = await home.run(['run', 'list', '--format', 'table'])
    expect(shown).toMatchObject({
      stdout: '  none\n',
      stderr: expect.stringContaining('craik run list --prompts'),
    })
    expect(await home.run(['run', 'list', '--format', 'json'])).toEqual({
      code: 0,
      stdout: '[]\n',
      stderr: '',
    })
  })

  it('whose process is killed ends its agent, and no job of another command', async () => {
    const { child, seen, ended, lines } = startPromptProcess('RUN: sleep 4321', project())
    await seen(({ type }) => type === 'permission')
    const sandbox = String(lines[0]!.sandbox_id)
    const others = ['--', 'tail', '-f', '/dev/null']
    await home.json(['sandbox', 'exec', '--detach', '--format', 'json', sandbox, ...others])
    const running = async () => {
      const processes = await home.json<{ name: string; job?: string }[]>([
        'sandbox',
        'ps',
        sandbox,
        '--format',
        'json',
      ])
      return processes.filter(({ job }) => job !== undefined).map(({ name }) => name)
    }
    while (!(await running()).includes('sleep')) await sleep(100)
    child.kill('SIGKILL')
    await ended
    while ((await running()).length > 1) await sleep(250)
    expect(await running()).toEqual(['tail'])
  })

  it('to an agent that exits gives an error, and is recorded as failed', async () => {
    const { code, stderr, lines } = await prompt('FAIL', '--workspace', project())
    expect(code).toBe(89)
    expect(stderr).toMatch(/^craik: fixture: the agent exited with 3\n/)
    expect(await home.json(['run', 'show', runOf(lines), '--format', 'json'])).toMatchObject({
      status: 'failed',
      stop_reason: 'harness_failed',
    })
  })
})

describe('a mistake', () => {
  it.each([
    [['prompt', 'hi', '--harness', 'gemini'], 77, 'gemini has no login on this machine', 'gemini'],
    [['prompt', 'hi'], 77, 'no agent has a login', 'craik accounts'],
    [['prompt', ' ', '--harness', 'fixture'], 2, 'the prompt is empty', 'craik prompt'],
    [['prompt', 'hi', '--harness', 'nonsense'], 2, 'unknown harness: nonsense', 'claude-code'],
    [['prompt', 'hi', '--resume', 'run_unknown'], 3, 'unknown run', 'craik run list'],
    [['prompt', 'hi', '--resume', 'run_x', '--harness', 'codex'], 2, 'cannot be combined', ''],
    [['prompt', 'hi', '--harness', 'fixture', '--sandbox', 'nope'], 3, 'nope', 'craik sandbox list'],
    [
      ['prompt', 'hi', '--harness', 'fixture', '--sandbox', 'x', '--in-place'],
      2,
      'new sandbox',
      'omit those',
    ],
    [['prompt', 'hi', '--harness', 'fixture', '--budget', 'lots'], 2, '--budget', '2usd'],
    [['prompt', 'hi', '--harness', 'fixture', '--timeout', 'soon'], 2, '--timeout', ''],
  ])('%j exits with %i and a hint, and nothing on stdout', async (args, code, message, hint) => {
    const ran = await home.run(args)
    expect({ code: ran.code, stdout: ran.stdout }, ran.stderr).toEqual({ code, stdout: '' })
    expect(ran.stderr).toContain(message)
    expect(ran.stderr).toContain(hint)
  })
})

it('every decision of these tests can be recomputed', async () => {
  expect(await home.run(['receipts', 'verify', '--replay'])).toMatchObject({ code: 0 })
})
