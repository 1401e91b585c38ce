/** Persistent agents as a user runs them: on the command line, from login to audit. */
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, it } from 'vitest'
import { TestHome } from '../craik.ts'
import { startLocalModel } from '../local-model.ts'

interface Execution {
  readonly schema: string
  readonly status: string
  readonly exit_behavior: string
  readonly answer: string
  readonly run: {
    readonly id: string
    readonly task_id: string
    readonly stop_reason: string
    readonly runner_mode: string
  }
  readonly handoff: { readonly id: string; readonly status: string; readonly execution_mode: string }
  readonly receipt_ids: readonly string[]
  readonly session: { readonly status: string; readonly receipt_ids: readonly string[] }
  readonly events: readonly { readonly type: string }[]
  readonly next_commands: readonly string[]
}

/** Creates a home with a logged-in operator and a workspace. */
async function homeWithLogin(name = 'ada'): Promise<TestHome> {
  const home = new TestHome()
  mkdirSync(home.path('work'))
  writeFileSync(home.path('work', 'notes.txt'), 'a file of the project\n')
  await home.json(['login', '--as', name])
  return home
}

const launch = (home: TestHome, ...more: string[]) =>
  home.json<{ launched: boolean; boundary: Record<string, unknown>; session: { id: string } }>([
    'agent',
    'launch',
    '--workspace',
    home.path('work'),
    '--session-id',
    's1',
    ...more,
  ])

describe('the operator’s login', () => {
  it('is required by every agent command, which exits with code 2 without it', async () => {
    using home = new TestHome()
    for (const args of [
      ['list'],
      ['status', 's1'],
      ['audit', 's1'],
      ['launch'],
      ['prompt', 's1', 'hi'],
      ['rename', 's1', 'x'],
      ['stop', 's1'],
      ['restart', 's1'],
      ['recover', 's1'],
    ]) {
      const { code, stderr } = await home.run(['agent', ...args])
      expect(stderr).toContain('active operator session required; run craik login')
      expect(code).toBe(2)
    }
  })

  it('sets the operator of every later receipt, until logout', async () => {
    using home = await homeWithLogin()
    await home.json(['command', 'register', 'greet', '--', 'echo', 'hi'])
    await home.json(['shell', 'true'])
    await home.json(['logout'])
    await home.json(['command', 'register', 'part', '--', 'echo', 'bye'])
    const receipts = await home.json<{ body: { operator: string; target?: string } }[]>(['receipts', 'list'])
    const operators = receipts.map(({ body }) => body.operator).reverse()
    expect(operators.slice(0, 5)).toEqual(Array(5).fill('operator:ada'))
    expect(operators[5]).toMatch(/^local-user:/)
    expect(await home.json(['whoami'])).toMatchObject({ logged_in: false })
  })
})

describe('a persistent agent with the fixture', () => {
  it('is launched, prompted and audited, and all its records verify', async () => {
    using home = await homeWithLogin()
    expect(await launch(home)).toMatchObject({ launched: true, boundary: { capabilities_conferred: [] } })
    const execution = await home.json<Execution>(['agent', 'prompt', 's1', 'run the fixture action'])
    expect(execution).toMatchObject({
      schema: 'craik.agent_prompt_execution',
      exit_behavior: 'completed',
      run: { runner_mode: 'fixture' },
      handoff: { status: 'completed', execution_mode: 'fixture' },
      session: { status: 'idle' },
    })
    expect(execution.session.receipt_ids).toEqual(expect.arrayContaining([...execution.receipt_ids]))
    expect(execution.events.map(({ type }) => type)).toEqual(['prompt_received', 'run_completed'])
    for (const command of execution.next_commands) {
      expect((await home.run(command.split(' ').slice(1))).code, command).toBe(0)
    }
    expect(await home.json(['agent', 'audit', 's1'])).toMatchObject({ passed: true })
    expect(await home.json(['agent', 'status', 's1'])).toMatchObject({ hmac_status: 'verified' })
    expect(await home.json(['receipts', 'verify', '--replay'])).toMatchObject({ outcome: 'ok' })
  })

  it('is blocked without the grant, exits with 77 and prints the command to type', async () => {
    using home = await homeWithLogin()
    await launch(home)
    const args = ['agent', 'prompt', 's1', 'x', '--no-allow-fixture-action']
    const { code, stdout } = await home.run(args)
    expect(code).toBe(77)
    const execution = JSON.parse(stdout) as Execution & { stopped: { hint: string; receipt_id: string } }
    expect(execution).toMatchObject({ exit_behavior: 'blocked', handoff: { status: 'blocked' } })
    expect(Object.keys(execution.stopped).sort()).toEqual(['hint', 'reason', 'receipt_id'])
    expect(await home.json(['receipts', 'show', execution.stopped.receipt_id])).toMatchObject({
      body: { kind: 'denial' },
    })
    const [, command] = execution.stopped.hint.split(':  craik ')
    await home.json(command!.split(' '))
    expect(await home.json<Execution>(args)).toMatchObject({ exit_behavior: 'completed' })
    expect(await home.json(['agent', 'audit', 's1'])).toMatchObject({ passed: true })
  })

  it('is blocked under strict in spite of the grant', async () => {
    using home = await homeWithLogin()
    await launch(home, '--profile', 'strict')
    const { code, stdout } = await home.run(['agent', 'prompt', 's1', 'x'])
    expect(code).toBe(77)
    expect(JSON.parse(stdout)).toMatchObject({ run: { stop_reason: 'strict.never' } })
  })

  it('is listed, renamed, stopped, restarted, shown and exported without its prompt', async () => {
    using home = await homeWithLogin()
    await launch(home)
    await home.json(['agent', 'prompt', 's1', 'PURPLE ELEPHANT'])
    await home.json(['agent', 'rename', 's1', 'parser work'])
    await home.json(['agent', 'stop', 's1', '--reason', 'lunch'])
    await home.json(['agent', 'restart', 's1'])
    expect(await home.json(['agent', 'list', '--status', 'idle'])).toMatchObject([
      { session: { id: 's1', display_name: 'parser work' }, hmac_status: 'verified' },
    ])
    expect(await home.json(['session', 'show', 's1'])).toMatchObject({ session: { status: 'idle' } })
    const exported = await home.run(['session', 'export', 's1'])
    expect(exported.stdout).not.toContain('PURPLE')
    expect(exported.stdout).not.toContain(home.folder)
    expect(JSON.parse(exported.stdout)).toMatchObject({
      schema: 'craik.session_export',
      runs: [{ status: 'completed' }],
      handoffs: [{ status: 'completed' }],
      events: expect.arrayContaining([expect.objectContaining({ type: 'exited' })]),
    })
  })

  it('refuses a second session with its id and a restart while active, both with exit code 2', async () => {
    using home = await homeWithLogin()
    await launch(home)
    const again = await home.run(['agent', 'launch', '--session-id', 's1', '--workspace', home.path('work')])
    expect(again.code).toBe(2)
    expect(again.stderr).toContain('session s1 already exists')
    expect((await home.run(['agent', 'restart', 's1'])).code).toBe(2)
  })

  it('denies the prompt of another operator, with a receipt', async () => {
    using home = await homeWithLogin()
    await launch(home)
    await home.json(['login', '--as', 'bob'])
    const { code, stderr } = await home.run(['agent', 'prompt', 's1', 'hi'])
    expect(code).toBe(77)
    expect(stderr).toContain('belongs to operator:ada, not to operator:bob')
    expect(await home.json(['receipts', 'list', '--kind', 'denial'])).toMatchObject([
      {
        body: {
          operator: 'operator:bob',
          links: { session_id: 's1' },
          decision: { rule: 'session.operator' },
        },
      },
    ])
    expect(await home.json(['run', 'list'])).toEqual([])
  })

  it('is hidden from other operators: each read is denied with a receipt, and lists count the hidden entries', async () => {
    using home = await homeWithLogin()
    await launch(home)
    const { run, handoff } = await home.json<Execution>(['agent', 'prompt', 's1', 'hi'])
    await home.json(['login', '--as', 'bob'])
    const looks = [
      ['agent', 'status', 's1'],
      ['agent', 'audit', 's1'],
      ['session', 'show', 's1'],
      ['session', 'export', 's1'],
      ['run', 'show', run.id],
      ['handoff', 'show', handoff.id],
      ['run', 'resume', run.id, 'hi'],
    ]
    for (const args of looks) {
      const { code, stdout, stderr } = await home.run(args)
      expect({ args, code, stdout }).toEqual({ args, code: 77, stdout: '' })
      expect(stderr).toContain('belongs to operator:ada, not to operator:bob')
    }
    const denials = await home.json<{ body: { operation: string; operator: string } }[]>([
      'receipts',
      'list',
      '--kind',
      'denial',
    ])
    expect(denials.map(({ body }) => `${body.operator} ${body.operation}`).reverse()).toEqual(
      looks.map(([, verb]) => `operator:bob ${verb}`),
    )
    for (const [noun, what] of [
      ['agent', 'session'],
      ['session', 'session'],
      ['run', 'run'],
      ['handoff', 'handoff'],
    ] as const) {
      expect(await home.run([noun, 'list'])).toMatchObject({
        stdout: '[]\n',
        stderr: `  1 ${what} of another operator is not shown\n`,
      })
    }
    // Without a login, the reader is the local user, who is not ada either.
    await home.json(['logout'])
    expect((await home.run(['session', 'show', 's1'])).code).toBe(77)
    await home.json(['login', '--as', 'ada'])
    expect(await home.run(['agent', 'list'])).toMatchObject({ stderr: '' })
    expect(await home.json(['agent', 'audit', 's1'])).toMatchObject({ passed: true })
    expect(await home.json(['receipts', 'verify', '--replay'])).toMatchObject({ outcome: 'ok' })
  })

  it('becomes tampered after an edit in the database, refuses prompts and fails its audit', async () => {
    using home = await homeWithLogin()
    await launch(home, '--profile', 'strict')
    const database = new DatabaseSync(`${home.home}/state/craik.sqlite3`)
    database.exec(
      "UPDATE sessions SET document = replace(document, 'provider_fixture_local', 'provider_openai')",
    )
    database.close()
    expect(await home.json(['agent', 'status', 's1'])).toMatchObject({ hmac_status: 'tampered' })
    expect((await home.run(['agent', 'prompt', 's1', 'hi'])).code).toBe(1)
    expect((await home.run(['agent', 'audit', 's1'])).code).toBe(1)
  })

  it('runs two prompts one after the other or refuses one, and never runs both at once', async () => {
    using home = await homeWithLogin()
    await launch(home)
    const both = await Promise.all([1, 2].map(() => home.run(['agent', 'prompt', 's1', 'x'])))
    expect(both.map(({ code }) => code).sort()).toSatisfy(
      (codes: number[]) => codes[0] === 0 && (codes[1] === 0 || codes[1] === 2),
    )
    expect(await home.json(['agent', 'audit', 's1'])).toMatchObject({ passed: true })
  })
})

describe('without bubblewrap', () => {
  it('an agent launches only with an explicit --isolation none, and the receipts record that isolation', async () => {
    using home = await homeWithLogin()
    mkdirSync(home.path('bin'))
    symlinkSync('/usr/bin/uname', home.path('bin', 'uname'))
    const env = { PATH: home.path('bin') }
    const args = ['agent', 'launch', '--session-id', 's1', '--workspace', home.path('work')]
    const refused = await home.run(args, { env })
    expect(refused.code).toBe(69)
    expect(refused.stderr).toContain('--isolation none')
    await home.json([...args, '--isolation', 'none'], { env })
    const execution = await home.json<Execution>(['agent', 'prompt', 's1', 'x'], { env })
    expect(execution).toMatchObject({
      exit_behavior: 'completed',
      handoff: { risks: expect.arrayContaining(['a command ran on the host itself, without isolation']) },
    })
    const ends = await home.json(['receipts', 'list', '--kind', 'sandbox_action', '--status', 'passed'])
    expect(ends).toMatchObject([{ body: { isolation: 'none' } }])
  })

  it('the commands of a session that was launched with bubblewrap are denied, and do not run on the host instead', async () => {
    using home = await homeWithLogin()
    await launch(home)
    const { code, stdout } = await home.run(['agent', 'prompt', 's1', 'x'], {
      env: { PATH: home.path('bin') },
    })
    expect(code).toBe(77)
    expect(JSON.parse(stdout)).toMatchObject({ run: { status: 'blocked', stop_reason: 'sandbox.isolation' } })
    expect(await home.json(['receipts', 'list', '--kind', 'sandbox_action'])).toEqual([])
  })
})

describe('a task without a session', () => {
  it('runs in the same way, with its own envelope', async () => {
    using home = await homeWithLogin()
    const args = ['run', 'execute', 'run the fixture action', '--provider-id', 'provider_openai', '--fixture']
    const execution = await home.json<Execution>([...args, '--workspace', home.path('work')])
    expect(execution).toMatchObject({
      schema: 'craik.provider_backed_run_execution',
      status: 'completed',
      run: { policy_envelope_id: `policy_${execution.run.task_id}`, provider_id: 'provider_openai' },
      provider_ids: ['provider_openai'],
    })
    expect(await home.json(['run', 'show', execution.run.id])).toMatchObject({ hmac_status: 'verified' })
    expect(await home.json(['handoff', 'show', execution.handoff.id])).toMatchObject({
      hmac_status: 'verified',
    })
  })

  it.each([
    [['--provider-id', 'provider_nowhere'], 3],
    [['--workspace', '/nowhere/at/all'], 2],
    [['--workspace', '/etc'], 2],
    [['--workspace', '.'], 2],
    [['--policy-envelope-id', 'policy_nowhere'], 3],
    [['--max-iterations', '0'], 2],
    [['--max-iterations', '51'], 2],
    [['--command-seconds', '3601'], 2],
    [['--command-seconds', '0.5'], 2],
  ])('refuses %j', async (flags, exit) => {
    using home = await homeWithLogin()
    const where = ['--workspace', home.path('work')]
    expect((await home.run(['run', 'execute', 'x', ...where, ...flags])).code).toBe(exit)
    expect(await home.json(['run', 'list'])).toEqual([])
  })
})

describe('an agent with a model server that uses a real wire format', () => {
  it('runs the model’s tool call by reference, returns its output, and ends with the second response', async () => {
    using home = await homeWithLogin()
    await using model = await startLocalModel([
      { kind: 'tool_call', name: 'run_command', arguments: { command_ref: 'read-notes' } },
      { kind: 'text', text: 'the notes say: a file of the project' },
    ])
    await home.json(['provider', 'enable', 'ollama', '--base-url', model.baseUrl])
    await home.json(['command', 'register', 'read-notes', '--', 'cat', 'notes.txt'])
    await launch(home, '--provider-id', 'provider_local_ollama')
    const grant = ['grant', 'create', '--capability', 'shell.execute', '--operation', 'run']
    await home.json([...grant, '--target', 'read-notes', '--session-id', 's1'])
    const execution = await home.json<Execution>(['agent', 'prompt', 's1', 'what do the notes say?'])
    expect(execution).toMatchObject({
      exit_behavior: 'completed',
      answer: 'the notes say: a file of the project',
      run: { runner_mode: 'live', iteration: 2 },
      handoff: { execution_mode: 'live', commands_run: [{ command_ref: 'read-notes', exit_code: 0 }] },
    })
    expect(model.requests.map(({ invalid }) => invalid)).toEqual([undefined, undefined])
    expect(model.requests[1]!.body.messages.at(-1)).toMatchObject({
      role: 'tool',
      content: 'exit 0\nstdout:\na file of the project\n',
    })
    expect(await home.json(['agent', 'audit', 's1'])).toMatchObject({ passed: true })
    expect(await home.json(['receipts', 'verify', '--replay'])).toMatchObject({ outcome: 'ok' })
  })

  it('stops a command after --command-seconds', async () => {
    using home = await homeWithLogin()
    await using model = await startLocalModel([
      { kind: 'tool_call', name: 'run_command', arguments: { command_ref: 'nap' } },
      { kind: 'text', text: 'it took too long' },
    ])
    await home.json(['provider', 'enable', 'ollama', '--base-url', model.baseUrl])
    await home.json(['command', 'register', 'nap', '--', 'sleep', '600'])
    await home.json([
      'grant',
      'create',
      '--any-scope',
      '--capability',
      'shell.execute',
      '--operation',
      'run',
      '--target',
      'nap',
    ])
    const execution = await home.json([
      'run',
      'execute',
      'nap',
      '--provider-id',
      'provider_local_ollama',
      '--command-seconds',
      '1',
      '--workspace',
      home.path('work'),
    ])
    expect(execution).toMatchObject({
      status: 'completed',
      handoff: { commands_run: [{ command_ref: 'nap', status: 'failed' }] },
    })
    expect(model.requests[1]!.body.messages.at(-1).content).toContain('did not finish: timeout')
  })

  it('is blocked while its provider is disabled, and prints how to enable it', async () => {
    using home = await homeWithLogin()
    await launch(home, '--provider-id', 'provider_local_ollama')
    const { code, stdout } = await home.run(['agent', 'prompt', 's1', 'hi'])
    expect(code).toBe(77)
    expect(JSON.parse(stdout)).toMatchObject({
      exit_behavior: 'blocked',
      stopped: { hint: expect.stringContaining('craik provider enable') },
    })
  })
})
