/** `craik demo persistent-agent`, as a new user runs it. */
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { builtMain, environmentOf, NODE, run, TestHome } from '../craik.ts'

interface Execution {
  readonly provider_id: string
  readonly session_id: string
  readonly run_id: string
  readonly handoff_id: string
  readonly receipt_ids: readonly string[]
  readonly next_commands: readonly string[]
}
interface Demo {
  readonly provider_executions: readonly Execution[]
  readonly isolation: string
  readonly verification: { readonly outcome: string; readonly decisions: number; readonly agree: number }
  readonly commands: readonly string[]
}
interface Verified {
  readonly outcome: string
  readonly replay: { readonly decisions: number; readonly agree: number }
}
interface Listed {
  readonly body: {
    readonly id: string
    readonly kind: string
    readonly phase: string
    readonly status?: string
    readonly capability: string
    readonly isolation?: string
    readonly links: Readonly<Record<string, unknown>>
  }
}

const DEMO = ['demo', 'persistent-agent']
const DEFAULTS = ['provider_openai', 'provider_anthropic', 'provider_gemini', 'provider_local_ollama']

describe('craik demo persistent-agent', () => {
  let craik: TestHome
  let repository: string
  /** Lists the records that remain, of any operator: a list reports how many records of others it hides. */
  const listRemaining = async (noun: 'session' | 'run' | 'handoff') => {
    const { stdout, stderr } = await craik.run([noun, 'list'])
    return { own: JSON.parse(stdout), others: stderr }
  }
  const NOTHING = { own: [], others: '' }
  const verify = () => craik.json<Verified>(['receipts', 'verify', '--replay'])

  beforeEach(() => {
    craik = new TestHome()
    repository = craik.path('parser')
    execFileSync('git', ['init', '--quiet', repository])
  })
  afterEach(() => craik[Symbol.dispose]())

  it('runs a session for each provider, and prints the stored state of each as JSON', async () => {
    const demo = await craik.json<Demo>([...DEMO, '--repo-path', repository])
    expect(demo).toMatchObject({
      schema: 'craik.demo.persistent_agent_launch',
      version: '0.1.0',
      mode: 'fixture',
      succeeded: true,
      artifacts_cleaned: true,
      project: { id: 'parser', name: 'parser', repo_path: repository },
      provider_ids: DEFAULTS,
      verification: { outcome: 'ok', not_replayable: 0, problems: [] },
    })
    expect(demo.verification.agree).toBe(demo.verification.decisions)
    for (const execution of demo.provider_executions)
      expect(execution).toMatchObject({
        launch_status: 'idle',
        status_inspection: { status: 'stopped', hmac_status: 'verified' },
        prompt_exit_behavior: 'completed',
        run_status: 'completed',
        handoff_status: 'completed',
        commands_run: 1,
        commands_passed: 1,
        provider_result_count: 2,
      })
  })

  it('leaves the receipts that the design (seed 001) requires, with their links, and nothing else', async () => {
    const demo = await craik.json<Demo>([...DEMO, '--repo-path', repository])
    for (const noun of ['session', 'run', 'handoff'] as const)
      expect(await listRemaining(noun)).toEqual(NOTHING)
    for (const { session_id, run_id, handoff_id, provider_id, receipt_ids } of demo.provider_executions) {
      const bodies = (
        await craik.json<readonly Listed[]>(['receipts', 'list', '--session', session_id, '--limit', '100'])
      ).map(({ body }) => body)
      const ended = bodies.filter(({ phase }) => phase === 'end')
      expect(ended.map(({ capability, status }) => `${capability} ${status}`).sort()).toEqual([
        'model.chat passed',
        'model.chat passed',
        'shell.execute passed',
      ])
      for (const { id, links } of ended) {
        expect(links).toMatchObject({
          session_id,
          run_id,
          handoff_id,
          provider_id,
          backend_id: 'sandbox_local_process',
        })
        expect(links).toHaveProperty('policy_envelope_id')
        expect(links).toHaveProperty('task_id')
        expect(receipt_ids).toContain(id)
      }
      const [command] = ended.filter(({ capability }) => capability === 'shell.execute')
      expect(command).toMatchObject({
        isolation: demo.isolation,
        links: { command_ref: 'fixture-action', grant_outcome: 'usable' },
      })
    }
    const { outcome, replay } = await verify()
    expect(outcome).toBe('ok')
    expect(replay.agree).toBe(replay.decisions)
  })

  it('shows the user each step in order, and the command to type next', async () => {
    const { code, stdout } = await craik.run([...DEMO, '--repo-path', repository, '--format', 'table'])
    expect(code).toBe(0)
    const output = stdout.replace(/(rcpt|agent_demo)_\w+/g, '$1')
    const order = [
      'on parser',
      'sandbox   ',
      ...DEFAULTS,
      'removed   4 sessions',
      'receipts  ',
      '✓ 4 of 4 runs',
    ]
    const places = order.map((part) => output.indexOf(part))
    expect(places).toEqual(places.toSorted((a, b) => a - b))
    expect(places).not.toContain(-1)
    expect(output.match(/\$ fixture-action exit 0/g)).toHaveLength(4)
    const next = /craik receipts list --session (\S+)/.exec(stdout)![1]!
    expect(await craik.json<readonly unknown[]>(['receipts', 'list', '--session', next])).not.toEqual([])
  })

  it('does not change the user’s login, and needs none', async () => {
    await craik.json([...DEMO, '--repo-path', repository, '--provider-id', 'openai'])
    expect((await craik.run(['whoami', '--format', 'json'])).stdout).not.toContain('persistent-agent-demo')
    await craik.json(['login', '--as', 'ada'])
    await craik.json([...DEMO, '--repo-path', repository, '--provider-id', 'openai'])
    expect((await craik.run(['whoami', '--format', 'json'])).stdout).toContain('operator:ada')
  })

  it('keeps its records with --keep-artifacts, and every command that it prints works', async () => {
    const demo = await craik.json<Demo>([
      ...DEMO,
      '--repo-path',
      repository,
      '--project-name',
      'shown',
      '--keep-artifacts',
      '--provider-id',
      'provider_gemini',
    ])
    expect(await listRemaining('session')).toEqual({
      own: [],
      others: '  1 session of another operator is not shown\n',
    })
    const [{ session_id, next_commands }] = demo.provider_executions as [Execution]
    for (const command of [...demo.commands, ...next_commands]) {
      const { code, stderr } = await craik.run(command.split(' ').slice(1))
      expect({ command, code, stderr }).toEqual({ command, code: 0, stderr: '' })
    }
    const status = await craik.json<{ hmac_status: string; session: object }>(['agent', 'status', session_id])
    expect(status).toMatchObject({
      hmac_status: 'verified',
      session: { status: 'stopped', project_id: 'shown', operator_subject: 'operator:persistent-agent-demo' },
    })
  })

  it('works twice in a row', async () => {
    const first = await craik.json<Demo>([...DEMO, '--repo-path', repository])
    const second = await craik.json<Demo>([...DEMO, '--repo-path', repository])
    const ids = [first, second].flatMap((demo) => demo.provider_executions.map(({ run_id }) => run_id))
    expect(new Set(ids).size).toBe(8)
    expect((await verify()).outcome).toBe('ok')
  })

  it('works twice at the same time in one home', async () => {
    const both = await Promise.all([1, 2].map(() => craik.json<Demo>([...DEMO, '--repo-path', repository])))
    expect(both.map(({ verification }) => verification.outcome)).toEqual(['ok', 'ok'])
    expect(await listRemaining('session')).toEqual(NOTHING)
    expect((await verify()).outcome).toBe('ok')
  })

  it('works without any network, not even loopback', async () => {
    const { code, stdout, stderr } = await run(
      'unshare',
      ['--user', '--map-root-user', '--net', NODE, builtMain(), ...DEMO, '--repo-path', repository],
      { env: environmentOf(craik) },
    )
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(JSON.parse(stdout)).toMatchObject({ succeeded: true })
  })

  it('continues without isolation when no sandbox program is installed, and says so', async () => {
    const bin = craik.path('bin')
    mkdirSync(bin)
    symlinkSync(execFileSync('which', ['uname'], { encoding: 'utf8' }).trim(), join(bin, 'uname'))
    const options = { env: { PATH: bin } }
    const args = [...DEMO, '--repo-path', repository, '--provider-id', 'openai']
    expect(await craik.json<Demo>(args, options)).toMatchObject({
      succeeded: true,
      isolation: 'none',
      isolation_advice: { command: expect.stringContaining('bubblewrap') },
    })
    const { stdout } = await craik.run([...args, '--format', 'table'], options)
    expect(stdout).toContain('sandbox   none: the command runs directly on the host')
    expect(stdout).toContain('craik agent launch --fixture --isolation none')
    expect(stdout).toContain('apt-get install bubblewrap')
    expect(stdout).not.toContain('in the sandbox')
  })

  it('respects existing budgets, and reports which one stopped it', async () => {
    const demo = [...DEMO, '--repo-path', repository, '--provider-id', 'openai']
    await craik.json(['budget', 'set', '--provider', 'provider_openai', '--tokens', '100000'])
    for (let i = 0; i < 2; i++)
      expect(await craik.json(demo)).toMatchObject({ succeeded: true, verification: { outcome: 'ok' } })

    await craik.json(['budget', 'set', '--provider', 'provider_openai', '--tokens', '10'])
    const { code, stdout } = await craik.run(demo)
    expect(code).toBe(1)
    expect(JSON.parse(stdout)).toMatchObject({
      succeeded: false,
      provider_executions: [{ run_status: 'blocked', handoff_status: 'blocked', commands_run: 0 }],
      verification: { outcome: 'ok' },
    })
    expect((await craik.run([...demo, '--format', 'table'])).stdout).toMatch(/✗ run blocked.*\n.*budget/)
    expect(await listRemaining('session')).toEqual(NOTHING)
    expect((await verify()).outcome).toBe('ok')
  })

  it('changes nothing in the repository', async () => {
    writeFileSync(join(repository, 'a.txt'), 'a\n')
    const before = readdirSync(repository, { recursive: true })
    await craik.json([...DEMO, '--repo-path', repository, '--provider-id', 'openai'])
    expect(readdirSync(repository, { recursive: true })).toEqual(before)
    expect(readFileSync(join(repository, 'a.txt'), 'utf8')).toBe('a\n')
  })

  it.each([
    ['an empty folder', ['--repo-path', 'empty'], 2, 'empty is not a git repository: it has no .git'],
    ['a whole home folder', ['--repo-path', '.'], 2, 'the workspace is or contains a home folder'],
    ['no folder', ['--repo-path', 'nowhere'], 2, 'folder nowhere does not exist'],
    [
      'a provider that there is not',
      ['--repo-path', 'parser', '--provider-id', 'x'],
      3,
      'unknown model provider: x',
    ],
    ['a live transport', ['--repo-path', 'parser', '--allow-live'], 2, "unknown option '--allow-live'"],
  ])('refuses %s before it starts anything', async (_, args, exit, message) => {
    mkdirSync(craik.path('empty'))
    execFileSync('git', ['init', '--quiet', craik.folder])
    const { code, stdout, stderr } = await craik.run([...DEMO, ...args])
    expect({ code, stdout }).toEqual({ code: exit, stdout: '' })
    expect(stderr).toContain(message)
    expect(stderr.trim().split('\n')).toHaveLength(2)
    expect(await craik.json(['receipts', 'list'])).toEqual([])
  })

  it('cleans up after Ctrl-C, and the log stays intact', async () => {
    // There are so many providers that another one always follows when the signal arrives.
    const ids = Array.from({ length: 60 }, (_, i) => `provider_shown_${i}`)
    const [record] = await craik.json<readonly Readonly<Record<string, unknown>>[]>(['provider', 'list'])
    mkdirSync(join(craik.home, 'config', 'providers'), { recursive: true, mode: 0o700 })
    for (const id of ids)
      writeFileSync(
        join(craik.home, 'config', 'providers', `${id}.json`),
        JSON.stringify({ ...record, id }),
        {
          mode: 0o600,
        },
      )
    const child = spawn(
      NODE,
      [
        builtMain(),
        ...DEMO,
        '--repo-path',
        repository,
        '--format',
        'table',
        ...ids.flatMap((id) => ['--provider-id', id]),
      ],
      {
        env: environmentOf(craik),
        stdio: ['ignore', 'pipe', 'ignore'],
      },
    )
    let output = ''
    child.stdout.on('data', (chunk: Buffer) => {
      output += chunk
      if (output.includes('session agent_demo_') && !child.killed) child.kill('SIGINT')
    })
    const [code] = await once(child, 'close')
    expect(code).toBe(130)
    expect(output).toContain('removed   ')
    expect(output).not.toContain(ids.at(-1))
    expect(await listRemaining('session')).toEqual(NOTHING)
    expect((await verify()).outcome).toBe('ok')
  })
})
