/** SIGKILL in the middle of a prompt: the records state what is known about it and what is not. */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync } from 'node:fs'
import type { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { builtMain, environmentOf, NODE, TestHome } from '../craik.ts'
import { startLocalModel } from '../local-model.ts'
import type { Act } from '../wire/wire-server.ts'

/** A duration that no other process on the host is likely to use. */
const NAP = '86397'

const SLOW: Act = { kind: 'tool_call', name: 'run_command', arguments: { command_ref: 'slow' } }

async function scene(script: readonly Act[], isolation: 'process' | 'none' = 'process') {
  const home = new TestHome()
  mkdirSync(home.path('work'))
  const model = await startLocalModel(script)
  await home.json(['login', '--as', 'ada'])
  await home.json(['provider', 'enable', 'ollama', '--base-url', model.baseUrl])
  await home.json(['command', 'register', 'slow', '--', 'sleep', NAP])
  const where = ['--workspace', home.path('work'), '--provider-id', 'provider_local_ollama']
  await home.json(['agent', 'launch', '--session-id', 's1', '--isolation', isolation, ...where])
  const grant = ['grant', 'create', '--capability', 'shell.execute', '--operation', 'run']
  await home.json([...grant, '--target', 'slow', '--session-id', 's1'])
  const started: ChildProcess[] = []
  return {
    home,
    model,
    prompt() {
      const child = startPrompt(home)
      started.push(child)
      return child
    },
    async [Symbol.asyncDispose]() {
      for (const child of started) child.kill('SIGKILL')
      await model[Symbol.asyncDispose]()
      home[Symbol.dispose]()
    },
  }
}

function startPrompt(home: TestHome) {
  return spawn(NODE, [builtMain(), 'agent', 'prompt', 's1', 'work on it'], {
    cwd: home.folder,
    env: environmentOf(home),
    stdio: ['ignore', 'pipe', 'ignore'],
  })
}

async function textOf(stream: Readable): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of stream) chunks.push(chunk)
  return Buffer.concat(chunks).toString()
}

async function until(what: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await what())) await sleep(25)
}

const waitForExit = (child: ChildProcess) =>
  child.exitCode !== null || child.signalCode !== null
    ? Promise.resolve()
    : new Promise<void>((done) => child.once('exit', () => done()))

/** Returns the pids of this test's command anywhere on the host. */
function findNapPids(): readonly number[] {
  return readdirSync('/proc')
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'latin1').startsWith(`sleep\0${NAP}\0`)
      } catch {
        return false
      }
    })
    .map(Number)
}

const isNapping = (): boolean => findNapPids().length > 0

describe('a prompt that is killed', () => {
  it('during a command: the command is killed too, its outcome is indeterminate and the run is interrupted', async () => {
    await using at = await scene([SLOW, { kind: 'text', text: 'never' }])
    const { home } = at
    const child = at.prompt()
    await until(isNapping)
    child.kill('SIGKILL')
    await waitForExit(child)
    await until(() => !isNapping())

    expect(await home.json(['agent', 'status', 's1'])).toMatchObject({ session: { status: 'running' } })
    expect((await home.run(['agent', 'prompt', 's1', 'more'])).code).toBe(2)
    const recovered = await home.json<{ ended_run: { run_id: string; handoff_id: string } }>([
      'agent',
      'recover',
      's1',
      '--reason',
      'the machine went away',
    ])
    expect(recovered).toMatchObject({ session: { status: 'idle' }, ended_run: { status: 'interrupted' } })
    const { run_id, handoff_id } = recovered.ended_run
    expect(await home.json(['run', 'show', run_id])).toMatchObject({
      run: { status: 'interrupted', stop_reason: 'owner_died', phase: 'stop' },
      hmac_status: 'verified',
    })
    expect(await home.json(['handoff', 'show', handoff_id])).toMatchObject({
      handoff: {
        status: 'incomplete',
        commands_run: [
          { command_ref: 'slow', status: 'indeterminate', exit_code: null, isolation_asked: 'process' },
        ],
        self_audit: { every_receipt_has_ended: true, no_denied_action_ran: true },
      },
    })
    expect(await home.json(['agent', 'audit', 's1'])).toMatchObject({ passed: true })
    expect(await home.json(['receipts', 'verify', '--replay'])).toMatchObject({ outcome: 'ok' })
  })

  it('during a command without isolation: the handoff says that the command may still run', async () => {
    await using at = await scene([SLOW, { kind: 'text', text: 'never' }], 'none')
    const { home } = at
    const child = at.prompt()
    await until(isNapping)
    child.kill('SIGKILL')
    await waitForExit(child)
    try {
      const recovered = await home.json<{ ended_run: { handoff_id: string } }>(['agent', 'recover', 's1'])
      const show = ['handoff', 'show', recovered.ended_run.handoff_id, '--format', 'table']
      const { stdout } = await home.run(show)
      expect(stdout).toContain('isolation none requested, actual isolation unknown')
      expect(stdout).toContain('a command was started without isolation and may still run')
    } finally {
      for (const pid of findNapPids()) process.kill(pid, 'SIGKILL')
    }
  })

  it('during a slow call: nothing is claimed about the answer, and the session accepts prompts again', async () => {
    await using at = await scene([{ kind: 'silence' }, { kind: 'text', text: 'here I am' }])
    const { home, model } = at
    const child = at.prompt()
    await until(() => model.requests.length === 1)
    child.kill('SIGKILL')
    await waitForExit(child)

    const [{ run }] = await home.json<[{ run: { id: string } }]>(['run', 'list', '--status', 'running'])
    const recovered = await home.json(['run', 'recover', run.id])
    expect(recovered).toMatchObject({
      run: { status: 'interrupted', provider_result_count: 0 },
      handoff: { status: 'incomplete', completed_actions: [], commands_run: [] },
    })
    expect(await home.json(['agent', 'status', 's1'])).toMatchObject({
      session: { status: 'idle', active_run_id: null },
      hmac_status: 'verified',
    })
    const resumed = await home.json(['run', 'resume', run.id, 'work on it'])
    expect(resumed).toMatchObject({ status: 'completed', answer: 'here I am', run: { resumed_from: run.id } })
    expect(await home.json(['agent', 'audit', 's1'])).toMatchObject({ passed: true })
    expect(await home.json(['receipts', 'verify', '--replay'])).toMatchObject({ outcome: 'ok' })
  })
})

describe('a prompt that another process stops', () => {
  it.each([
    ['run cancel', 'idle'],
    ['agent stop', 'stopped'],
  ])('by %s ends its command and its run, and reports it', async (verb, status) => {
    await using at = await scene([SLOW, { kind: 'text', text: 'never' }])
    const { home } = at
    const child = at.prompt()
    await until(isNapping)
    const [{ run }] = await home.json<[{ run: { id: string } }]>(['run', 'list', '--status', 'running'])
    await home.json([...verb.split(' '), verb === 'run cancel' ? run.id : 's1'])
    await waitForExit(child)
    expect(child.exitCode).toBe(130)
    expect(isNapping()).toBe(false)
    expect(await home.json(['run', 'show', run.id])).toMatchObject({
      run: { status: 'interrupted', stop_reason: 'cancelled', commands: [{ status: 'failed' }] },
    })
    expect(await home.json(['agent', 'status', 's1'])).toMatchObject({ session: { status } })
    expect(await home.json(['agent', 'audit', 's1'])).toMatchObject({ passed: true })
  })
})

describe('a prompt that is stopped while its model is silent', () => {
  it.each(['SIGINT', 'SIGTERM', 'SIGHUP', 'run cancel', 'agent stop'] as const)(
    'by %s prints its result, as after any other end',
    async (how) => {
      await using at = await scene([{ kind: 'silence' }])
      const { home, model } = at
      const child = at.prompt()
      const printed = textOf(child.stdout)
      await until(() => model.requests.length === 1)
      const [{ run }] = await home.json<[{ run: { id: string } }]>(['run', 'list', '--status', 'running'])
      if (how === 'run cancel') await home.json(['run', 'cancel', run.id])
      else if (how === 'agent stop') await home.json(['agent', 'stop', 's1'])
      else child.kill(how)
      await waitForExit(child)
      expect(child.exitCode).toBe(130)
      expect(JSON.parse(await printed)).toMatchObject({
        exit_behavior: 'interrupted',
        run: { id: run.id, stop_reason: 'cancelled' },
        handoff: { status: 'incomplete' },
        next_commands: expect.arrayContaining([`craik run show ${run.id}`]),
      })
      expect(await home.json(['agent', 'audit', 's1'])).toMatchObject({ passed: true })
    },
  )
})
