/** The operator's shell: behaviors 32–35 of the original Craik, and the known defects of its `!` commands. */
import { createHash } from 'node:crypto'
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Receipt } from '../../src/receipts/schema.ts'
import { sideLogPath } from '../../src/run/side-log.ts'
import { SideLogChecker } from '../../src/run/side-log-check.ts'
import { type CommandResult, type RunOptions, TestHome } from '../craik.ts'
import { editDatabase, isAlive, openLog, startInBackground, TOKEN, waitForFile } from '../e2e/live-log.ts'

type Shell = NonNullable<Receipt['body']['shell']>

/** Tests that only add receipts share this home. */
let shared: TestHome

beforeAll(() => {
  shared = new TestHome()
})
afterAll(() => shared[Symbol.dispose]())

describe('32: the receipt of a command', () => {
  it('verifies, and records what happened', async () => {
    const { ran, body, shell } = await runShell(shared, 'echo hello')
    expect(ran.code).toBe(0)
    expect(body).toMatchObject({
      kind: 'shell_invocation',
      phase: 'end',
      status: 'passed',
      capability: 'shell.operator',
      target: 'echo',
      isolation: 'none',
    })
    expect(body.operator).toMatch(/^local-user:/)
    expect(shell).toMatchObject({
      command: 'echo hello',
      working_directory: shared.folder,
      exit_code: 0,
      signal: null,
      outcome: 'exited',
      stdout: { preview: 'hello\n', bytes: 6, complete: true },
      stderr: { preview: '', bytes: 0 },
      redactions_applied: [],
    })
    expect(shell.duration_ms).toBeGreaterThanOrEqual(0)
    expect(await verify(shared)).toMatchObject({ code: 0, report: { outcome: 'ok' } })
  })

  it('follows a begin receipt that was stored before the command ran', async () => {
    const { body } = await runShell(shared, 'true')
    const begin = await receipt(shared, body.begin_id!)
    expect(begin.body).toMatchObject({
      phase: 'begin',
      decision: { effect: 'allow', rule: 'strict.operator_shell', replayable: true },
    })
    expect(begin.body.owner).toMatchObject({ pid: expect.any(Number), boot_id: expect.any(String) })
  })

  it('is listed by `receipts list`', async () => {
    const { body } = await runShell(shared, 'echo listed')
    const { stdout } = await shared.run([
      'receipts',
      'list',
      '--kind',
      'shell_invocation',
      '--format',
      'table',
    ])
    expect(stdout).toContain(body.id)
  })

  it.each([
    ['its exit code', `line = replace(line, '"exit_code":3', '"exit_code":0')`],
    ['its status', `line = replace(line, '"status":"failed"', '"status":"passed"')`],
    ['its command', `line = replace(line, 'exit 3', 'exit 0')`],
    ['its HMAC', `line = replace(line, '"receipt_hmac":"', '"receipt_hmac":"0')`],
    ['the status that a list shows', `status = 'passed'`],
    ['the time that a list shows', 'at_ms = at_ms - 86400000'],
  ])('is identified as tampered after %s was edited', async (_, change) => {
    using home = new TestHome()
    writeFileSync(home.path('fail.sh'), 'exit 3\n')
    const { body } = await runShell(home, "sh fail.sh 'exit 3'")
    editDatabase(home.home, `UPDATE receipts SET ${change} WHERE id = '${body.id}'`)
    const { code, report } = await verify(home)
    expect(code).toBe(1)
    expect(report).toMatchObject({ outcome: 'tampered', finding: { seq: 1 } })
  })

  it('is also identified in table output, even with --replay', async () => {
    using home = new TestHome()
    const { body } = await runShell(home, 'echo edited')
    editDatabase(
      home.home,
      `UPDATE receipts SET line = replace(line, '"shell":{"command', '"shell":{command')`,
    )
    const { code, stdout } = await home.run(['receipts', 'verify', '--replay', '--format', 'table'])
    expect(code).toBe(1)
    expect(stdout).toContain('✗ receipt 1')
    expect(stdout).toContain(body.id.slice(-3))
  })
})

describe('33: the side log', () => {
  it('is named by the hash of its content, and only its owner can read it', async () => {
    writeFileSync(shared.path('both.sh'), 'echo out\necho err >&2\n')
    const { shell } = await runShell(shared, 'sh both.sh')
    for (const [stream, text] of [
      [shell.stdout, 'out\n'],
      [shell.stderr, 'err\n'],
    ] as const) {
      const path = sideLogPath(folder(shared), stream.sha256)
      expect(readFileSync(path, 'utf8')).toBe(text)
      expect(sha256(readFileSync(path))).toBe(stream.sha256)
      expect(statSync(path).mode & 0o777).toBe(0o600)
    }
    expect(statSync(folder(shared)).mode & 0o777).toBe(0o700)
  })

  it('leaves no half-written file behind', async () => {
    await runShell(shared, 'echo whole')
    expect(readdirSync(folder(shared)).filter((name) => !/^[0-9a-f]{64}\.log$/.test(name))).toEqual([])
  })

  it('stores 5 MB completely, while the receipt and the database stay small', async () => {
    using home = new TestHome()
    writeFileSync(home.path('much.sh'), "yes 'a line of ordinary text' | head -c 5000000\n")
    const { ran, shell } = await runShell(home, 'sh much.sh')
    expect(ran.code).toBe(0)
    expect(shell.stdout).toMatchObject({ bytes: 5_000_000, complete: true })
    expect(shell.stdout.preview.length).toBeLessThanOrEqual(4096)
    const content = readFileSync(sideLogPath(folder(home), shell.stdout.sha256))
    expect(content.length).toBe(5_000_000)
    expect(sha256(content)).toBe(shell.stdout.sha256)
    expect(statSync(join(home.home, 'state/craik.sqlite3')).size).toBeLessThan(1_000_000)
    expect((await verify(home)).code).toBe(0)
  })

  it('stores binary output, and the receipt still verifies', async () => {
    writeFileSync(shared.path('binary.sh'), String.raw`printf 'a\377\376\000\033[31mb\360\237'`)
    const { ran, shell } = await runShell(shared, 'sh binary.sh')
    expect(ran.code).toBe(0)
    expect(shell.stdout.preview.isWellFormed()).toBe(true)
    expect(shell.stdout.preview).toContain('\ufffd')
    expect(sha256(readFileSync(sideLogPath(folder(shared), shell.stdout.sha256)))).toBe(shell.stdout.sha256)
    expect((await verify(shared)).code).toBe(0)
  })
})

describe('34: a token', () => {
  it('in a command and its output appears neither in the Craik home nor on the screen', async () => {
    using home = new TestHome()
    for (const format of ['json', 'table']) {
      const { ran, shell } = await runShell(home, `echo a ${TOKEN} b`, { format })
      expect(ran.stdout + ran.stderr).not.toContain(TOKEN)
      expect(ran.stdout).toContain('[REDACTED]')
      expect(shell.command).toContain('[REDACTED]')
      expect(shell.stdout.preview).toBe('a [REDACTED] b\n')
      expect(shell.redactions_applied.length).toBeGreaterThanOrEqual(2)
      for (const label of shell.redactions_applied)
        expect(label).toMatch(/^(command|stdout|stderr):[a-z0-9_]+$/)
      expect(shell.redactions_applied.map((label) => label.split(':')[0])).toEqual(['command', 'stdout'])
    }
    expect(filesWith(home, TOKEN)).toEqual([])
  })

  it('is redacted when it arrives on stderr in two pieces', async () => {
    using home = new TestHome()
    writeFileSync(
      home.path('pieces.sh'),
      `printf ${TOKEN.slice(0, 20)} >&2; sleep 0.3; echo ${TOKEN.slice(20)} >&2\n`,
    )
    const { ran, shell } = await runShell(home, 'sh pieces.sh', { format: 'table' })
    expect(ran.stderr).not.toContain(TOKEN)
    expect(shell.stderr.preview).toBe('[REDACTED]\n')
    expect(shell.redactions_applied).toEqual([expect.stringMatching(/^stderr:[a-z0-9_]+$/)])
    expect(filesWith(home, TOKEN)).toEqual([])
  })

  it.each([
    ['a backslash', String.raw`true Authorization:\ Bearer\ abcdefgh12345`, 'abcdefgh12345'],
    ['backslashes in a value', String.raw`true --token first\ middle\ last`, 'middle'],
    ['quotes in its middle', `true ${TOKEN.slice(0, 12)}''${TOKEN.slice(12)}`, TOKEN.slice(12)],
    ['quotes around an assignment', "env 'DB_PASSWORD=hunter2 with blanks' true", 'blanks'],
  ])('is redacted in a command despite %s', async (_, command, secret) => {
    const { ran, shell } = await runShell(shared, command)
    expect(ran.code).toBe(0)
    expect(ran.stdout).not.toContain(secret)
    expect(shell.command).not.toContain(secret)
    expect(shell.redactions_applied).not.toEqual([])
  })

  it('in place of the program name appears neither in the error nor in the receipt', async () => {
    using home = new TestHome()
    const { ran, body } = await runShell(home, TOKEN)
    expect(ran.code).toBe(127)
    expect(ran.stdout + ran.stderr).not.toContain(TOKEN)
    expect(body.target).toMatch(/^program:[0-9a-f]{32}$/)
    expect(filesWith(home, TOKEN)).toEqual([])
  })

  it('does not break the receipt when the preview limit cuts its mask', async () => {
    using home = new TestHome()
    writeFileSync(home.path('edge.sh'), `head -c 4085 /dev/zero | tr '\\0' ' '; echo token=abcdefgh1\n`)
    const { ran, shell } = await runShell(home, 'sh edge.sh')
    expect(ran.code).toBe(0)
    expect(shell.stdout.preview).toHaveLength(4096)
    const long = await runShell(home, `true ${'a '.repeat(2036)} --token abcdefgh1`)
    expect(long.ran.code).toBe(0)
    expect(long.shell.command.length).toBeLessThanOrEqual(4096)
    expect(filesWith(home, 'abcdefgh1').filter((name) => !name.endsWith('.sh'))).toEqual([])
  })
})

describe('35: verification of side logs', () => {
  it.each([
    '../../etc/passwd',
    '',
    'A'.repeat(64),
    `${'0'.repeat(63)}/`,
    `${'0'.repeat(64)}\n`,
    '0'.repeat(65),
  ])('never builds a path from %j', async (digest) => {
    expect(() => sideLogPath('/somewhere', digest)).toThrow(TypeError)
    const checker = new SideLogChecker(folder(shared))
    checker.receipt(Buffer.from(JSON.stringify({ body: { shell: { stdout: { sha256: digest } } } })))
    expect(await checker.finish()).toMatchObject({ tampered: [digest], missing: [] })
  })

  it.each(['{"body":{"shell":{', '{"body":{"shell":{}}}', '{"body":{"shell":{"stdout":{}}}}'])(
    'still finishes after a forged line: %s',
    async (line) => {
      const checker = new SideLogChecker(folder(shared))
      checker.receipt(Buffer.from(line))
      expect((await checker.finish()).missing).toEqual([])
    },
  )

  it('finds an edited side log, then a missing one', async () => {
    using home = new TestHome()
    const { shell } = await runShell(home, 'echo evidence')
    const path = sideLogPath(folder(home), shell.stdout.sha256)
    appendFileSync(path, 'more\n')
    expect(await verify(home)).toMatchObject({
      code: 1,
      report: { outcome: 'tampered', side_logs: { tampered: [shell.stdout.sha256] } },
    })
    rmSync(path)
    expect(await verify(home)).toMatchObject({
      code: 2,
      report: { outcome: 'incomplete', side_logs: { missing: [shell.stdout.sha256], tampered: [] } },
    })
    const { stdout } = await home.run(['receipts', 'verify', '--format', 'table'])
    expect(stdout).toContain(`shell output ${shell.stdout.sha256.slice(0, 16)}`)
  })
})

describe('a command', () => {
  it('gets a clean environment: only a short list of Craik’s variables', async () => {
    const env = { FOO_TOKEN: 'planted-value', NODE_OPTIONS: '', LD_PRELOAD_X: 'x', LANG: 'C' }
    const { shell } = await runShell(shared, 'env', { env })
    const names = shell.stdout.preview
      .split('\n')
      .filter(Boolean)
      .map((line) => line.split('=')[0])
    expect(names).toContain('PATH')
    expect(names).toContain('LANG')
    for (const name of ['FOO_TOKEN', 'NODE_OPTIONS', 'LD_PRELOAD_X', 'CRAIK_HOME'])
      expect(names).not.toContain(name)
    expect(shell.stdout.preview).not.toContain('planted-value')
  })

  it('is not run by a shell: variables, globs, pipes and redirections are plain text', async () => {
    const text = '$HOME * `id` $(id) | > x ; && & ~'
    const { shell } = await runShell(shared, `echo ${text}`)
    expect(shell.stdout.preview).toBe(`${text}\n`)
    expect(existsSync(shared.path('x'))).toBe(false)
  })

  it('reads piped input', async () => {
    const { shell } = await runShell(shared, 'cat', { input: 'from a pipe\n' })
    expect(shell.stdout.preview).toBe('from a pipe\n')
  })

  it.each(['echo "never closed', "echo 'never closed", 'echo \\', '', '   '])(
    'that is not a valid command line (%j) runs nothing and leaves no receipt',
    async (command) => {
      const before = await size(shared)
      const { code, stdout, stderr } = await shared.run(['shell', command])
      expect(code).toBe(2)
      expect(stdout).toBe('')
      expect(stderr).toMatch(/^craik: /)
      expect(await size(shared)).toBe(before)
    },
  )

  it('in several arguments is refused with a hint on how to quote it', async () => {
    const { code, stderr } = await shared.run(['shell', 'echo', 'two words'])
    expect(code).toBe(2)
    expect(stderr).toContain(`craik shell 'echo '\\''two words'\\'''`)
  })

  it('that fails keeps its exit code, and the receipt has the status failed', async () => {
    const { ran, body, shell } = await runShell(shared, `sh -c 'exit 7'`)
    expect(ran.code).toBe(7)
    expect(body.status).toBe('failed')
    expect(shell).toMatchObject({ outcome: 'exited', exit_code: 7 })
  })

  it('that is killed records the signal', async () => {
    const { ran, body, shell } = await runShell(shared, `sh -c 'kill -KILL $$'`)
    expect(ran.code).toBe(137)
    expect(body.status).toBe('failed')
    expect(shell).toMatchObject({ outcome: 'signalled', signal: 'SIGKILL', exit_code: null })
  })

  it.each([
    ['does not exist', 'no-such-program-here', 127],
    ['may not be executed', '/dev/null', 126],
  ])('that %s leaves a receipt with the outcome not_started', async (_, command, expected) => {
    const { ran, body, shell } = await runShell(shared, command)
    expect(ran.code).toBe(expected)
    expect(ran.stderr).toMatch(/^craik: [^\n]+\n$/)
    expect(body.status).toBe('failed')
    expect(shell).toMatchObject({ outcome: 'not_started', exit_code: null, signal: null })
  })

  it('that exceeds its timeout is killed with its child processes, and the receipt has the outcome timeout', async () => {
    writeFileSync(shared.path('slow.sh'), 'sleep 300 &\necho $! $$\nwait\n')
    const { ran, body, shell } = await runShell(shared, 'sh slow.sh', { flags: ['--timeout', '700ms'] })
    expect(ran.code).toBe(124)
    expect(ran.stderr).toContain('longer than 700ms')
    expect(body.status).toBe('failed')
    expect(shell).toMatchObject({ outcome: 'timeout', exit_code: null })
    const pids = shell.stdout.preview.trim().split(' ').map(Number)
    expect(pids).toHaveLength(2)
    for (const pid of pids) expect(isAlive(pid)).toBe(false)
  })

  it('receives the Ctrl-C that craik receives, and leaves a receipt', async () => {
    using home = new TestHome()
    writeFileSync(
      home.path('wait.sh'),
      `trap 'echo interrupted > got; exit 0' INT\n: > ready\nwhile :; do sleep 0.05; done\n`,
    )
    const { child, ended } = startInBackground(home, ['shell', 'sh wait.sh'])
    await waitForFile(home.path('ready'))
    child.kill('SIGINT')
    expect((await ended).code).toBe(130)
    expect(readFileSync(home.path('got'), 'utf8')).toBe('interrupted\n')
    const [newest] = await home.json<Receipt[]>(['receipts', 'list', '--limit', '1'])
    expect(newest!.body).toMatchObject({
      phase: 'end',
      status: 'failed',
      shell: { outcome: 'cancelled', exit_code: null },
    })
    expect((await verify(home)).code).toBe(0)
  })

  it('whose craik process was killed is recorded as indeterminate by the next craik command', async () => {
    using home = new TestHome()
    writeFileSync(home.path('orphan.sh'), 'echo $$ > pid.part\nmv pid.part pid\nexec sleep 300\n')
    const { child, ended } = startInBackground(home, ['shell', 'sh orphan.sh'])
    await waitForFile(home.path('pid'))
    child.kill('SIGKILL')
    await ended
    process.kill(Number(readFileSync(home.path('pid'), 'utf8')), 'SIGKILL')
    await runShell(home, 'true')
    const all = await home.json<Receipt[]>(['receipts', 'list', '--status', 'indeterminate'])
    expect(all).toHaveLength(1)
    expect(all[0]!.body).toMatchObject({ kind: 'shell_invocation', phase: 'end', target: 'sh' })
    expect((await verify(home)).code).toBe(0)
  })
})

describe('policy', () => {
  it('denies a command under automation: it leaves a denial receipt and runs nothing', async () => {
    using home = new TestHome()
    const { code, stdout, stderr } = await home.run(['shell', '--profile', 'automation', 'touch ran'])
    expect(code).toBe(77)
    expect(stdout).toBe('')
    expect(stderr).toContain('automation.never')
    expect(existsSync(home.path('ran'))).toBe(false)
    const all = await home.json<Receipt[]>(['receipts', 'list'])
    expect(all.map(({ body }) => [body.kind, body.status, body.target])).toEqual([
      ['denial', 'denied', 'touch'],
    ])
    expect(stderr).toContain(all[0]!.body.id)
    expect((await verify(home)).code).toBe(0)
  })

  it('written by the user can forbid one program and allow the others', async () => {
    using home = new TestHome()
    mkdirSync(join(home.home, 'config/policies'), { recursive: true, mode: 0o700 })
    writeFileSync(
      join(home.home, 'config/policies/custom.cedar'),
      `@id("no-touch")
forbid(principal, action == Action::"shell.operator", resource == Target::"touch");
@id("my-shell")
permit(principal, action == Action::"shell.operator", resource);
`,
    )
    // The rule also matches the path, because the target is the program's name.
    for (const command of ['touch ran', '/usr/bin/touch ran', "'touch' ran"]) {
      const { code, stderr } = await home.run(['shell', '--profile', 'custom', command])
      expect(code).toBe(77)
      expect(stderr).toContain('no-touch')
    }
    expect(existsSync(home.path('ran'))).toBe(false)
    const { ran, body } = await runShell(home, 'echo allowed', { flags: ['--profile', 'custom'] })
    expect(ran.code).toBe(0)
    expect((await receipt(home, body.begin_id!)).body.decision).toMatchObject({
      effect: 'allow',
      rule: 'my-shell',
    })
  })

  it('that does not parse runs nothing and reports the position of the error', async () => {
    using home = new TestHome()
    mkdirSync(join(home.home, 'config/policies'), { recursive: true, mode: 0o700 })
    writeFileSync(
      join(home.home, 'config/policies/custom.cedar'),
      'permit(principal,\n  action, nonsense);\n',
    )
    const { code, stderr } = await home.run(['shell', '--profile', 'custom', 'touch ran'])
    expect(code).toBe(78)
    expect(stderr).toMatch(/custom\.cedar:\d+:\d+: /)
    expect(existsSync(home.path('ran'))).toBe(false)
  })
})

interface ShellOptions extends RunOptions {
  readonly format?: string
  readonly flags?: readonly string[]
}

/** Runs a command through the real command line and reads the receipt that it left. */
async function runShell(home: TestHome, command: string, options: ShellOptions = {}) {
  const { format = 'json', flags = [], ...how } = options
  const ran: CommandResult = await home.run(['shell', '--format', format, ...flags, command], how)
  const id = /rcpt_[0-9A-Z]{26}/.exec(format === 'json' ? ran.stdout : ran.stderr)?.[0]
  if (id === undefined) throw new Error(`no receipt: ${ran.stdout}${ran.stderr}`)
  const { body } = await receipt(home, id)
  return { ran, body, shell: body.shell as Shell }
}

async function receipt(home: TestHome, id: string): Promise<Receipt> {
  await using live = await openLog(home.home)
  return live.receipt(id)
}

async function size(home: TestHome): Promise<number | undefined> {
  await using live = await openLog(home.home)
  return (await live.store.read((tables) => tables.receipts.last()))?.seq
}

interface Verified {
  readonly code: number | null
  readonly report: {
    readonly outcome: string
    readonly finding?: { readonly id?: string; readonly seq?: number }
  }
}

async function verify(home: TestHome): Promise<Verified> {
  const { code, stdout, stderr } = await home.run(['receipts', 'verify', '--format', 'json'])
  if (stdout === '') throw new Error(`verify said nothing: ${stderr}`)
  return { code, report: JSON.parse(stdout) as Verified['report'] }
}

function folder(home: TestHome): string {
  return join(home.home, 'state/shell-output')
}

/** Returns the files in a test's folder that contain a text. */
function filesWith(home: TestHome, text: string): string[] {
  return readdirSync(home.folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => readFileSync(path).includes(text))
}

function sha256(content: Buffer): string {
  return createHash('sha256').update(content).digest('hex')
}
