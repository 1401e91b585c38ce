/** `craik sandbox` as a user runs it: real sandboxes, a real supervisor, a real terminal. */
import { createHash, randomBytes } from 'node:crypto'
import { mkdirSync, readFileSync, readlinkSync, realpathSync, symlinkSync, writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ERRORS } from '../../src/errors.ts'
import type { SandboxBody, StatsBody } from '../../src/operator/api/bodies.ts'
import { builtMain, environmentOf, NODE, run, TestHome } from '../craik.ts'
import { startCraik, Terminal } from './interactive-user.ts'

let home: TestHome
let sandbox: SandboxBody

beforeAll(async () => {
  home = new TestHome()
  mkdirSync(home.path('project/src'), { recursive: true })
  writeFileSync(home.path('project/src/a.txt'), 'hello\n')
  symlinkSync('src/a.txt', home.path('project/link'))
  await run('mkfifo', [home.path('project/pipe')], { env: { PATH: process.env.PATH! } })
  sandbox = await home.json(['sandbox', 'create', '--name', 'parser', '--workspace', home.path('project')])
})
afterAll(async () => {
  await home.run(['sandbox', 'delete', '--all', '--yes'])
  await home.run(['supervisor', 'stop'])
  home[Symbol.dispose]()
})

const exec = (...args: string[]) => home.run(['sandbox', 'exec', 'parser', ...args])

describe('create', () => {
  it('copies the workspace, skips special files, and reports how limits are enforced', async () => {
    expect(sandbox).toMatchObject({
      name: 'parser',
      state: 'running',
      isolation: 'process',
      workspace: { mode: 'copy' },
      copied: { files: 1, bytes: 6, skipped: ['pipe (fifo)'] },
      enforced: { memory: expect.any(String), processes: expect.any(String) },
    })
    const { stdout } = await exec('--', 'cat', 'src/a.txt', 'link')
    expect(stdout).toBe('hello\nhello\n')
  })

  it('refuses a name in use, and leaves no usable grant', async () => {
    const { code, stderr } = await home.run(['sandbox', 'create', '--name', 'parser'])
    expect(code).toBe(ERRORS.conflict.exit)
    expect(stderr).toMatch(/^craik: [^\n]+\n {2}[^\n]+\n$/)
    const grants = await home.json<{ capability: string; state: string }[]>(['grant', 'list'])
    expect(
      grants.filter((grant) => grant.capability === 'sandbox.create' && grant.state === 'usable'),
    ).toEqual([])
  })

  it.each([
    [['--memory', '2'], '512m'],
    [['--cpus', 'many'], '1.5'],
    [['--env', 'A'], '--env A=VALUE'],
    [['--name', 'Not Ok'], '--name parser'],
    [['--workspace', '/nonesuch'], '--workspace .'],
    [['--workspace', '/'], 'project'],
    [['--workspace', '.', '--max-copy', '1k'], '--max-copy'],
  ])('with %j is refused before anything is created', async (args, hint) => {
    mkdirSync(home.path('large'), { recursive: true })
    writeFileSync(home.path('large/file'), randomBytes(4096))
    const { code, stdout, stderr } = await home.run(['sandbox', 'create', ...args], {
      cwd: home.path('large'),
    })
    expect([ERRORS.usage.exit, ERRORS.too_large.exit]).toContain(code)
    expect(stdout).toBe('')
    expect(stderr).toContain(hint)
    expect(await home.json<SandboxBody[]>(['sandbox', 'list'])).toHaveLength(1)
  })

  it.each([
    [['sandbox', 'create', '--backend', 'docker', '--apt', 'jq']],
    [['prompt', 'SAY: x', '--backend', 'docker', '--harness', 'fixture']],
  ])('builds no image on another engine than that of the supervisor: %j', async (args) => {
    const engine = `unix://${home.path('no-engine.sock')}`
    const { code, stderr } = await home.run(args, {
      cwd: home.path('project'),
      env: { CRAIK_ENGINE: engine },
    })
    expect(code, stderr).toBe(ERRORS.conflict.exit)
    expect(stderr).toContain('the supervisor was started without it')
  })

  it('without bubblewrap is refused, with the package to install and the option without isolation', async () => {
    using other = new TestHome()
    // The supervisor does not search the user's PATH. So bubblewrap is hidden with a mount, from this supervisor alone.
    const hide = 'mount --bind /dev/null "$0" && exec "$@"'
    const users = process.getuid?.() === 0 ? [] : ['--user', '--map-root-user']
    const args = [...users, '--mount', '--', 'sh', '-c', hide, realpathSync('/usr/bin/bwrap')]
    const refused = await run('unshare', [...args, NODE, builtMain(), 'sandbox', 'create'], {
      cwd: other.folder,
      env: environmentOf(other),
    })
    await other.run(['supervisor', 'stop'])
    expect(refused.code).toBe(ERRORS.unavailable.exit)
    expect(refused.stderr).toMatch(/bubblewrap/)
    expect(refused.stderr).toMatch(/--isolation none/)
  })
})

describe('exec', () => {
  it('returns the output, the errors and the exit code of the command', async () => {
    expect(await exec('--', 'sh', '-c', 'echo out; echo err >&2; exit 7')).toEqual({
      code: 7,
      stdout: 'out\n',
      stderr: 'err\n',
    })
  })

  it.each([
    [['--', 'sh', '-c', 'kill -TERM $$'], 143],
    [['--', 'nonesuch'], 127],
    [['--timeout', '300ms', '--', 'sleep', '60'], 124],
    [['--cwd', 'src', '--env', 'A=b c', '--', 'sh', '-c', 'test -f a.txt && test "$A" = "b c"'], 0],
  ])('%j exits with %i', async (args, code) => {
    expect((await exec(...args)).code).toBe(code)
  })

  it('passes on every byte of its input and of its output', async () => {
    const input = randomBytes(3 * 1024 * 1024)
    const { code, stdout } = await home.run(
      ['sandbox', 'exec', 'parser', '--', 'sh', '-c', 'tee /tmp/copy | sha256sum; sha256sum < /tmp/copy'],
      { input },
    )
    const digest = createHash('sha256').update(input).digest('hex')
    expect([code, stdout]).toEqual([0, `${digest}  -\n${digest}  -\n`])
  })

  it('with the same job id runs once', async () => {
    const id = 'job_01JCQ3V8Z0W4N5T6R7Y8K9M2PD'
    const args = ['--no-stdin', '--job-id', id, '--', 'sh', '-c', 'echo ran >> ran; cat ran']
    expect(await exec(...args)).toMatchObject({ code: 0, stdout: 'ran\n' })
    expect(await exec(...args)).toMatchObject({ code: 0, stdout: 'ran\n' })
    expect((await exec('--', 'cat', 'ran')).stdout).toBe('ran\n')
  })

  it('runs a registered command by its reference', async () => {
    await home.json(['command', 'register', 'show-a', '--', 'cat', 'src/a.txt'])
    expect(await exec('--command', 'show-a')).toMatchObject({ code: 0, stdout: 'hello\n' })
  })

  it('passes on Ctrl-C as SIGINT, and the second one kills the command', async () => {
    const polite = start('trap "echo caught; exit 7" INT; echo ready; while :; do sleep 0.1; done')
    await polite.waitForText('ready')
    polite.child.kill('SIGINT')
    expect(await polite.ended).toMatchObject({ code: 7, stdout: 'ready\ncaught\n' })

    const stubborn = start('trap "echo no" INT; echo ready; while :; do sleep 0.1; done')
    await stubborn.waitForText('ready')
    stubborn.child.kill('SIGINT')
    await stubborn.waitForText('no')
    stubborn.child.kill('SIGINT')
    expect(await stubborn.ended).toMatchObject({ code: 137 })
  })

  it('continues without a lost or duplicate byte when the supervisor is killed', async () => {
    const counting = start('for i in $(seq 1 40); do echo $i; sleep 0.05; done')
    await counting.waitForText('5\n')
    const { pid } = await home.json<{ pid: number }>(['supervisor', 'status'])
    process.kill(pid, 'SIGKILL')
    const { code, stdout, stderr } = await counting.ended
    expect([code, stderr]).toEqual([0, ''])
    expect(stdout).toBe(`${Array.from({ length: 40 }, (_, i) => i + 1).join('\n')}\n`)
  })

  it('with --detach keeps running, and its output can be read then and later', async () => {
    const { job_id } = await home.json<{ job_id: string }>([
      'sandbox',
      'exec',
      'parser',
      '--detach',
      '--',
      'sh',
      '-c',
      'echo first; sleep 1; echo last; exit 3',
    ])
    const followed = await home.run(['sandbox', 'logs', 'parser', '--job', job_id, '--follow'])
    expect(followed).toMatchObject({
      code: 0,
      stdout: 'first\nlast\n',
      stderr: 'craik: the command exited with 3\n',
    })
    expect((await home.run(['sandbox', 'logs', 'parser', '--job', job_id])).stdout).toBe('first\nlast\n')
    const events = await home.json<{ type: string; job?: string }[]>(['sandbox', 'logs', 'parser'])
    expect(events.filter(({ job }) => job === job_id).map(({ type }) => type)).toEqual([
      'job_started',
      'job_ended',
    ])
  })

  it('has no network: an attempt gets an error, and its denial a receipt', async () => {
    const attempt =
      'exec 3<>/dev/tcp/127.0.0.1/8118; printf "GET http://collector.example/ HTTP/1.1\\r\\nHost: collector.example\\r\\nConnection: close\\r\\n\\r\\n" >&3; cat <&3'
    const { stdout } = await exec('--', 'bash', '-c', attempt)
    expect(stdout).toContain('blocked by craik: egress to collector.example:80 is not allowed')
    expect((await exec('--', 'bash', '-c', 'exec 3<>/dev/tcp/1.1.1.1/80')).code).not.toBe(0)
    const receipts = await home.json<{ body: { status: string; capability?: string } }[]>([
      'receipts',
      'list',
      '--kind',
      'denial',
    ])
    expect(JSON.stringify(receipts)).toContain('network.egress')
  })
})

describe('cp', () => {
  it('copies a file in and out, byte for byte, with its mode', async () => {
    const bytes = randomBytes(2 * 1024 * 1024 + 17)
    writeFileSync(home.path('in.bin'), bytes, { mode: 0o755 })
    expect(await home.json(['sandbox', 'cp', home.path('in.bin'), 'parser:'])).toMatchObject({ files: 1 })
    expect((await exec('--', 'stat', '-c', '%a %s', 'in.bin')).stdout).toBe(`755 ${bytes.length}\n`)
    await home.json(['sandbox', 'cp', 'parser:in.bin', home.path('out.bin')])
    expect(readFileSync(home.path('out.bin')).equals(bytes)).toBe(true)
    await home.json(['sandbox', 'cp', 'parser:/workspace/home/project/in.bin', home.folder])
  })

  it('copies a folder in and out, with the same names as cp', async () => {
    await home.json(['sandbox', 'cp', home.path('project'), 'parser:one'])
    await home.json(['sandbox', 'cp', home.path('project'), 'parser:one'])
    const { stdout } = await exec('--', 'find', 'one', '-type', 'f')
    expect(stdout.split('\n').filter(Boolean).sort()).toEqual(['one/project/src/a.txt', 'one/src/a.txt'])
    await home.json(['sandbox', 'cp', 'parser:one', home.path('two')])
    expect(readFileSync(home.path('two/project/src/a.txt'), 'utf8')).toBe('hello\n')
    expect(readlinkSync(home.path('two/link'))).toBe('src/a.txt')
    await home.json(['sandbox', 'cp', 'parser:one/src/.', home.path('two')])
    expect(readFileSync(home.path('two/a.txt'), 'utf8')).toBe('hello\n')
  })

  it('prints the path that it wrote, also when the destination is an existing folder', async () => {
    await exec('--', 'sh', '-c', 'mkdir -p told/src && echo a > told/src/a && ln -sfn told linked')
    mkdirSync(home.path('told/src'), { recursive: true })
    writeFileSync(home.path('told/src/b'), 'b')
    const at = async (source: string, destination: string) =>
      (await home.json<{ destination: string }>(['sandbox', 'cp', source, destination])).destination
    const local = home.path('told/src')
    expect(await at('parser:told/src', local)).toBe(`${local}/src`)
    expect(await at('parser:told/src', `${local}/`)).toBe(`${local}/src`)
    expect(await at('parser:told/src/a', local)).toBe(`${local}/a`)
    expect(await at('parser:told/src/.', local)).toBe(local)
    expect(await at('parser:told/src', `${local}/new`)).toBe(`${local}/new`)
    expect(await at(local, 'parser:told')).toBe('parser:told/src')
    expect(await at(local, 'parser:linked/')).toBe('parser:linked/src')
    expect(await at(`${local}/b`, 'parser:told')).toBe('parser:told/b')
    expect(await at(`${local}/b`, 'parser:')).toBe('parser:b')
    expect(await at(`${local}/b`, 'parser:c')).toBe('parser:c')
    expect(await at(`${local}/.`, 'parser:told')).toBe('parser:told')
    const table = await home.run(['sandbox', 'cp', 'parser:told/src', local, '--format', 'table'])
    expect(table.stdout).toContain(`→ ${local}/src ·`)
  })

  it('skips links that lead out of the copy, and reports what it skipped', async () => {
    await exec('--', 'sh', '-c', 'mkdir -p trap && ln -sf /etc/passwd trap/out && echo fine > trap/file')
    const { code, stdout, stderr } = await home.run(['sandbox', 'cp', 'parser:trap', home.path('trap')])
    expect([code, JSON.parse(stdout)]).toMatchObject([0, { files: 1, skipped_count: 1 }])
    expect(stderr).toContain('link leads outside')
  })

  it.each([
    [['a', 'b'], 'usage', 'ID:PATH'],
    [['parser:nonesuch', 'x'], 'not_found', 'ls -la'],
    [['nonesuch', 'parser:x'], 'not_found', 'ID:PATH'],
    [['x', 'nonesuch:x'], 'not_found', ''],
  ] as const)('%j is refused with a hint', async (args, code, hint) => {
    const { code: exit, stderr } = await home.run(['sandbox', 'cp', ...args])
    expect(exit).toBe(ERRORS[code].exit)
    expect(stderr).toContain(hint)
  })

  it('never replaces a folder with a file', async () => {
    mkdirSync(home.path('folder/in.bin'), { recursive: true })
    await exec('--', 'touch', 'in.bin')
    const { code } = await home.run(['sandbox', 'cp', 'parser:in.bin', home.path('folder')])
    expect(code).toBe(ERRORS.conflict.exit)
  })
})

describe('inspecting', () => {
  it('separates observed from claimed figures', async () => {
    const stats = await home.json<StatsBody>(['sandbox', 'stats', 'parser'])
    expect(stats).toMatchObject({
      observed: { processes: expect.any(Number) },
      claimed: { processes: expect.any(Number), disk_free_bytes: expect.any(Number) },
      limits: { memory_bytes: 2 ** 31 },
      enforced: { memory: expect.any(String) },
    })
    const { stdout } = await home.run(['sandbox', 'stats', 'parser', '--format', 'table'])
    expect(stdout).toMatch(/observed +claimed +limit +enforced/)
  })

  it('lists processes, and signals one', async () => {
    const { job_id } = await home.json<{ job_id: string }>([
      'sandbox',
      'exec',
      'parser',
      '--detach',
      '--',
      'sleep',
      '600',
    ])
    const processes = await home.json<{ pid: number; name: string; job?: string }[]>([
      'sandbox',
      'ps',
      'parser',
    ])
    const sleeping = processes.find(({ job }) => job === job_id)
    expect(sleeping).toMatchObject({ name: 'sleep' })
    await home.json(['sandbox', 'signal', 'parser', String(sleeping!.pid), 'KILL'])
    const { stderr } = await home.run(['sandbox', 'logs', 'parser', '--job', job_id, '--follow'])
    expect(stderr).toBe('craik: the command was terminated by SIGKILL\n')
  })

  it('an unknown sandbox suggests craik sandbox list', async () => {
    for (const args of [
      ['show', 'nope'],
      ['exec', 'nope', '--', 'true'],
      ['delete', 'nope'],
      ['logs', 'nope'],
    ]) {
      const { code, stdout, stderr } = await home.run(['sandbox', ...args])
      expect(code).toBe(ERRORS.not_found.exit)
      expect(stdout === '' || stdout === '[]\n').toBe(true)
      expect(stderr).toContain('craik sandbox list')
    }
  })

  it('forwards a port until it is interrupted', async () => {
    const server = 'require("http").createServer((q,s)=>s.end("from inside")).listen(8080,"127.0.0.1")'
    await home.json(['sandbox', 'exec', 'parser', '--detach', '--', '/opt/craik/node', '-e', server])
    const forwarding = startCraik(home, ['sandbox', 'forward', 'parser', '8080'])
    await forwarding.waitForText('"port"')
    await forwarding.waitForText('}\n')
    const { port } = JSON.parse(forwarding.stdout()) as { port: number }
    let text = ''
    for (let tries = 0; tries < 50 && text === ''; tries++) {
      text = await fetch(`http://127.0.0.1:${port}/`, { signal: AbortSignal.timeout(5000) })
        .then((answer) => answer.text())
        .catch(() => '')
      if (text === '') await sleep(100)
    }
    expect(text).toBe('from inside')
    forwarding.child.kill('SIGINT')
    expect((await forwarding.ended).code).toBe(0)
  })
})

describe('shell', () => {
  it('has the size of the terminal, can be detached and attached again, and exits with its own code', async () => {
    using first = new Terminal(home, ['sandbox', 'shell', 'parser'], 91, 37)
    await first.says('$')
    first.typeText('stty size\r')
    await first.says('37 91')
    first.resize(102, 40)
    await first.until(async () => {
      first.typeText('stty size\r')
      await first.says('40 102', 1000)
    })
    first.typeText('MARK=kept\r')
    first.typeText('\x1dd')
    expect(await first.exited).toBe(0)
    const job = /--attach (job_\w+)/.exec(first.screen)![1]!

    using second = new Terminal(home, ['sandbox', 'shell', 'parser', '--attach', job], 91, 37)
    await second.says('$')
    second.typeText('echo "[$MARK]"; exit 3\r')
    await second.says('[kept]')
    expect(await second.exited).toBe(3)
  })

  it('restores the terminal settings, also when it is killed', async () => {
    const script = `stty -a > before; "$0" "$@"; stty -a > after; cmp before after && echo same-settings`
    using terminal = new Terminal(
      home,
      ['sandbox', 'shell', 'parser', '--', 'sh', '-c', 'echo up; exec sleep 600'],
      80,
      24,
      script,
    )
    await terminal.says('up')
    const found = await run(
      'pgrep',
      ['-f', `^${NODE} ${builtMain()} sandbox shell parser -- sh -c echo up`],
      {
        env: { PATH: process.env.PATH! },
      },
    )
    process.kill(Number(found.stdout.trim().split('\n')[0]), 'SIGTERM')
    await terminal.says('same-settings')
  })

  it('without a terminal suggests craik sandbox exec', async () => {
    const { code, stderr } = await home.run(['sandbox', 'shell', 'parser'])
    expect(code).toBe(ERRORS.usage.exit)
    expect(stderr).toContain('craik sandbox exec parser --')
  })
})

describe('without a grant', () => {
  it('nothing runs, and the denial leaves a receipt', async () => {
    await home.json(['sandbox', 'create', '--name', 'revoked'])
    const { id } = await home.json<SandboxBody>(['sandbox', 'show', 'revoked'])
    type Grant = { id: string; capability: string; target: { ref?: string } }
    const grants = await home.json<Grant[]>(['grant', 'list'])
    const mine = grants.find(
      (grant) => grant.capability === 'sandbox.exec' && grant.target.ref === `sandbox/${id}`,
    )
    await home.json(['grant', 'revoke', mine!.id])
    const { code, stdout, stderr } = await home.run(['sandbox', 'exec', 'revoked', '--', 'touch', 'ran'])
    expect([code, stdout]).toEqual([ERRORS.denied.exit, ''])
    expect(stderr).toContain('craik ')
    const denials = await home.run(['receipts', 'list', '--kind', 'denial', '--format', 'json'])
    expect(denials.stdout).toContain('sandbox.exec')
    const { stdout: listing } = await home.run(['sandbox', 'cp', 'revoked:ran', home.path('ran')])
    expect(listing).toBe('')
    expect((await home.run(['sandbox', 'delete', 'revoked'])).code).toBe(0)
    // A signature covers new receipts within a second or two.
    let verified = await home.run(['receipts', 'verify', '--replay'])
    for (let tries = 0; verified.code === 2 && tries < 20; tries++) {
      await sleep(500)
      verified = await home.run(['receipts', 'verify', '--replay'])
    }
    expect(verified).toMatchObject({ code: 0 })
  })
})

const start = (script: string) => startCraik(home, ['sandbox', 'exec', 'parser', '--', 'sh', '-c', script])
