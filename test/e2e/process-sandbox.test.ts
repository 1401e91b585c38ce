/** Attacks from the process sandbox. The same commands succeed without isolation. */
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runChild } from '../../src/lib/child.ts'
import { processCommands } from '../../src/sandboxes/backends/process/command-backend.ts'
import type { CommandSandbox } from '../../src/sandboxes/command-backend.ts'
import { type Collected, exec } from '../contract/command-backend.ts'
import { NODE } from '../craik.ts'

const ROOT_USER = process.getuid?.() === 0
const SECRET = 'planted-secret-value'
const backendModule = new URL('../../src/sandboxes/backends/process/command-backend.ts', import.meta.url).href

/** Numbers of the system calls that the attacks make directly. */
const CALLS = process.arch === 'arm64' ? { socket: 198, keyctl: 219 } : { socket: 41, keyctl: 250 }

/** Root has two cases. It gives up its identity, or it keeps it because the workspace is closed to other users. */
const WORKSPACE_MODES: [string, number][] = ROOT_USER
  ? [
      ['a workspace that anybody may read', 0o755],
      ['a workspace that only root may read', 0o700],
    ]
  : [['the workspace of an ordinary user', 0o755]]

describe.each(WORKSPACE_MODES)('in %s', (_, mode) => {
  let folder: string
  let workspace: string
  let sandboxed: CommandSandbox
  let unisolated: CommandSandbox
  const servers: Server[] = []

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'craik-attack-'))
    chmodSync(folder, mode)
    workspace = join(folder, 'project')
    const home = join(workspace, '.craik')
    for (const path of [workspace, home, join(home, 'secrets')]) mkdirSync(path)
    writeFileSync(join(home, 'secrets/log.key'), SECRET)
    writeFileSync(join(folder, 'beside.txt'), SECRET)
    writeFileSync(join(workspace, 'readme.txt'), 'hello\n')
    symlinkSync(join(folder, 'beside.txt'), join(workspace, 'link'))
    const backend = processCommands({ craikHome: home, environment: { PATH: process.env.PATH } })
    sandboxed = await backend.create({ isolation: 'process', workspace })
    unisolated = await backend.create({ isolation: 'none', workspace })
  })
  afterAll(async () => {
    for (const server of servers) server.close()
    await sandboxed.destroy()
    rmSync(folder, { recursive: true, force: true })
  })

  const runSandboxed = (argv: readonly string[], options = {}): Promise<Collected> =>
    exec(sandboxed, argv, options)
  const runUnisolated = (argv: readonly string[], options = {}): Promise<Collected> =>
    exec(unisolated, argv, options)
  const hasPassed = ({ run }: Collected) => run.end === 'exited' && run.exitCode === 0

  /** Checks that the attack succeeds without isolation, and fails with it. */
  async function expectAttackFails(argv: readonly string[]): Promise<Collected> {
    expect(await runUnisolated(argv)).toSatisfy(hasPassed)
    const attack = await runSandboxed(argv)
    expect(attack).not.toSatisfy(hasPassed)
    expect(attack.out).not.toContain(SECRET)
    return attack
  }

  it('a command can read the workspace', async () => {
    expect(await runSandboxed(['cat', 'readme.txt'])).toMatchObject({ out: 'hello\n' })
    expect(await runSandboxed(['pwd'])).toMatchObject({ out: '/workspace\n' })
  })

  it('the host’s loopback is unreachable', async () => {
    const server = createServer((socket) => socket.end())
    servers.push(server)
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
    const { port } = server.address() as { port: number }
    await expectAttackFails(['bash', '-c', `exec 3<>/dev/tcp/127.0.0.1/${port}`])
  })

  it('no network exists', async () => {
    const { out } = await runSandboxed(['cat', '/proc/net/dev'])
    const devices = out.split('\n').flatMap((line) => /^\s*(\S+):/.exec(line)?.[1] ?? [])
    expect(devices).toEqual(['lo'])
    expect(await runSandboxed(['bash', '-c', 'exec 3<>/dev/tcp/192.0.2.1/80'])).not.toSatisfy(hasPassed)
  })

  it('an abstract socket of the host is unreachable', async () => {
    const name = `craik-${randomBytes(6).toString('hex')}`
    const server = createServer((socket) => socket.end())
    servers.push(server)
    await new Promise<void>((done) => server.listen(`\0${name}`, done))
    await expectAttackFails(['perl', '-e', connectTo(`"\\0${name}"`)])
  })

  it('a socket that a program of the host left in the workspace is unreachable', async () => {
    const server = createServer((socket) => socket.end())
    servers.push(server)
    await new Promise<void>((done) => server.listen(join(workspace, 'control.sock'), done))
    chmodSync(join(workspace, 'control.sock'), 0o777)
    await expectAttackFails(['perl', '-e', connectTo('"control.sock"')])
  })

  it('a socket pair still works, because it reaches no other process', async () => {
    const pair = 'use Socket; socketpair(A, B, AF_UNIX, SOCK_STREAM, 0) or exit 1'
    expect(await runSandboxed(['perl', '-e', pair])).toSatisfy(hasPassed)
  })

  it('vsock, which a network namespace does not isolate, is refused', async () => {
    const ask = `my $r = syscall(${CALLS.socket}, 40, 1, 0); print $! + 0; exit($r < 0)`
    expect(await runSandboxed(['perl', '-e', ask])).toMatchObject({ run: { exitCode: 1 }, out: '97' })
  })

  it('the kernel keys of the host’s session are unreachable', async () => {
    await expectAttackFails(['perl', '-e', `exit(syscall(${CALLS.keyctl}, 0, -3, 0) < 0)`])
  })

  it('other files of the host are missing: beside the workspace, in /tmp, behind a link', async () => {
    await expectAttackFails(['cat', join(folder, 'beside.txt')])
    await expectAttackFails(['cat', '../beside.txt'])
    await expectAttackFails(['cat', 'link'])
    await expectAttackFails(['ls', tmpdir() === '/tmp' ? folder : tmpdir()])
  })

  it('homes, /run, /var, /root and /sys are missing', async () => {
    const { out } = await runSandboxed(['ls', '-A', '/'])
    for (const name of ['root', 'run', 'var', 'sys', 'mnt', 'srv', 'boot'])
      expect(out.split('\n')).not.toContain(name)
    expect((await runSandboxed(['ls', '/home'])).out).toBe('sandbox\n')
    expect((await runSandboxed(['sh', '-c', 'ls -A ~ /tmp'])).out).not.toContain('craik')
  })

  it('/etc contains only what programs need: no shadow file, no accounts, no keys', async () => {
    await expectAttackFails(['grep', '-q', '^root:', ROOT_USER ? '/etc/shadow' : '/etc/passwd'])
    const { out } = await runSandboxed(['ls', '-A', '/etc'])
    const names = out.trim().split('\n')
    for (const name of ['shadow', 'gshadow', 'sudoers', 'ssh', 'machine-id', 'hostname'])
      expect(names).not.toContain(name)
    expect((await runSandboxed(['cat', '/etc/passwd'])).out).not.toContain('root')
    expect((await runSandboxed(['whoami'])).out).toBe('sandbox\n')
  })

  it('the Craik home is hidden although it is in the workspace', async () => {
    await expectAttackFails(['cat', '.craik/secrets/log.key'])
    expect((await runSandboxed(['ls', '-A', '.craik'])).out).toBe('')
    expect(await runSandboxed(['touch', '.craik/x'])).not.toSatisfy(hasPassed)
    expect(await runSandboxed(['grep', '-rs', SECRET, '/workspace', '/home', '/tmp'])).not.toSatisfy(
      hasPassed,
    )
  })

  it('processes of the host can be neither seen nor signaled', async () => {
    await expectAttackFails(['sh', '-c', `kill -0 ${process.pid}`])
    const { out } = await runSandboxed(['sh', '-c', 'echo /proc/[0-9]*'])
    expect(out.trim().split(' ').length).toBeLessThan(5)
  })

  it('only the sandbox’s own /tmp and home folder are writable', async () => {
    await expectAttackFails(['sh', '-c', 'echo x > written && rm written'])
    for (const path of ['/usr/x', '/x', '/etc/x', '/home/x', '/workspace/readme.txt', '/bin/x', '/dev/x'])
      expect(await runSandboxed(['sh', '-c', `echo x > ${path}`])).not.toSatisfy(hasPassed)
    expect(
      await runSandboxed(['sh', '-c', 'echo x > /tmp/x && echo x > ~/x && cat /tmp/x ~/x']),
    ).toMatchObject({
      out: 'x\nx\n',
    })
    expect((await runSandboxed(['sh', '-c', 'cat /tmp/x ~/x'])).out).toBe('')
  })

  it('kernel settings cannot be changed', async () => {
    // Each attack writes the current value, so that a successful attack does no harm.
    const rewrite = (path: string) => ['sh', '-c', `value=$(cat ${path}) && echo "$value" > ${path}`]
    if (ROOT_USER) await expectAttackFails(rewrite('/proc/sys/kernel/core_pattern'))
    for (const path of [
      '/proc/sys/kernel/core_pattern',
      '/proc/sys/vm/swappiness',
      '/proc/self/oom_score_adj',
    ])
      expect(await runSandboxed(rewrite(path))).not.toSatisfy(hasPassed)
    expect((await runSandboxed(['cat', '/proc/mounts'])).out).toMatch(/^proc \/proc proc ro,/m)
  })

  it('no new user namespace can be created, and nothing can be mounted', async () => {
    await expectAttackFails(['unshare', '--user', 'true'])
    const mount = 'mount -t tmpfs none /tmp'
    expect(await runSandboxed(['sh', '-c', mount])).not.toSatisfy(hasPassed)
    if (ROOT_USER) expect(await runUnisolated(['unshare', '--mount', 'sh', '-c', mount])).toSatisfy(hasPassed)
    expect(await runSandboxed(['mount', '-o', 'remount,rw', '/workspace'])).not.toSatisfy(hasPassed)
    expect(await runSandboxed(['umount', '/workspace/.craik'])).not.toSatisfy(hasPassed)
    expect(await runSandboxed(['mknod', '/tmp/disk', 'b', '8', '0'])).not.toSatisfy(hasPassed)
  })

  it('a process has no capability, and cannot gain one', async () => {
    const { out } = await runSandboxed(['cat', '/proc/self/status'])
    for (const set of ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'])
      expect(out).toMatch(new RegExp(`^${set}:\\s+0{16}$`, 'm'))
    expect(out).toMatch(/^NoNewPrivs:\s+1$/m)
    expect(out).toMatch(/^Seccomp:\s+2$/m)
  })

  if (ROOT_USER)
    it('a setuid root program does not become root', async () => {
      const tool = join(workspace, 'suid-id')
      copyFileSync('/usr/bin/id', tool)
      chmodSync(tool, 0o4755)
      if (mode === 0o755) {
        let out = ''
        const nobody = { uid: 65534, gid: 65534 }
        const add = (chunk: Buffer) => {
          out += chunk
        }
        await runChild({
          argv: [tool],
          cwd: '/',
          env: {},
          timeoutMs: 60_000,
          user: nobody,
          onStdout: add,
          onStderr: add,
        })
        expect(out).toContain('euid=0(root)')
      }
      expect((await runSandboxed(['./suid-id'])).out).toMatch(
        /^uid=1000\(sandbox\) gid=1000\(sandbox\)[^e]*$/,
      )
    })

  it('a command inherits no variable and no open file from Craik', async () => {
    const env = await runSandboxed(['env'])
    expect(
      env.out
        .split('\n')
        .flatMap((line) => line.split('=')[0] || [])
        .sort(),
    ).toEqual(
      ['HOME', 'LANG', 'LOGNAME', 'PATH', 'PWD', 'TERM', 'TMPDIR', 'USER'].filter((name) =>
        env.out.includes(`${name}=`),
      ),
    )
    const list =
      'opendir D, "/proc/self/fd"; print map { readlink("/proc/self/fd/$_") . "\\n" } grep { $_ > 2 } readdir D'
    const files = (await runSandboxed(['perl', '-e', list])).out.trim().split('\n')
    // Ignores the listed folder, and `/dev/null` in place of a descriptor that was left open for Craik.
    expect(files.filter((name) => name !== '/dev/null' && !/^\/proc\/\d+\/fd$/.test(name))).toEqual([])
    expect((await runSandboxed(['cat', '/proc/1/environ'])).out).toBe('')
  })

  it('a file that was open when craik started is unreachable', async () => {
    for (const isolation of ['none', 'process']) {
      const reader = ['bash', '-c', 'cat <&200']
      const holder = [
        RUNNER_SCRIPT,
        backendModule,
        isolation,
        workspace,
        join(workspace, '.craik'),
        ...reader,
      ]
      const script = `exec 200< ${join(folder, 'beside.txt')}; exec "$@"`
      const { out } = await runUnisolated([
        'bash',
        '-c',
        script,
        'bash',
        NODE,
        '--input-type=module',
        '-e',
        ...holder,
      ])
      expect(out.includes(SECRET)).toBe(isolation === 'none')
    }
  })

  it('a daemon does not outlive its command', async () => {
    const mark = uniqueDuration()
    const daemon = ['sh', '-c', `setsid sleep ${mark} >/dev/null 2>&1 & sleep 0.2; echo started`]
    expect((await runUnisolated(daemon)).out).toBe('started\n')
    expect(findSleepers(mark)).toHaveLength(1)
    killSleepers(mark)
    expect((await runSandboxed(daemon)).out).toBe('started\n')
    await waitForExit(mark)
  })

  it('a timeout ends all processes of a command, in every session', async () => {
    const mark = uniqueDuration()
    const script = `trap '' TERM; setsid sleep ${mark} & (trap '' TERM; sleep ${mark}) & sleep ${mark}`
    const { run } = await runSandboxed(['sh', '-c', script], { timeoutMs: 700, graceMs: 200 })
    expect(run.end).toBe('timeout')
    await waitForExit(mark)
  })

  it('the processes of a killed craik end too', async () => {
    for (const isolation of ['none', 'process']) {
      const mark = uniqueDuration()
      const holder = spawn(
        NODE,
        [
          '--input-type=module',
          '-e',
          RUNNER_SCRIPT,
          backendModule,
          isolation,
          workspace,
          join(workspace, '.craik'),
          'sleep',
          mark,
        ],
        { stdio: 'ignore', env: { PATH: process.env.PATH } },
      )
      await waitForSleeper(mark)
      holder.kill('SIGKILL')
      if (isolation === 'process') await waitForExit(mark)
      else {
        await sleep(300)
        expect(findSleepers(mark)).toHaveLength(1)
        killSleepers(mark)
      }
    }
  })

  it('destroying the instance ends its processes', async () => {
    const mark = uniqueDuration()
    const backend = processCommands({
      craikHome: join(workspace, '.craik'),
      environment: { PATH: process.env.PATH },
    })
    const instance = await backend.create({ isolation: 'process', workspace })
    const ended = exec(instance, ['sleep', mark])
    await waitForSleeper(mark)
    await instance.destroy()
    expect((await ended).run.end).toBe('cancelled')
    await waitForExit(mark)
  })

  if (ROOT_USER)
    it('root gives up its identity if the workspace can be read without it', async () => {
      expect(sandboxed.hostUid).toBe(mode === 0o755 ? 65534 : 0)
      writeFileSync(join(workspace, 'private.txt'), 'for root\n', { mode: 0o600 })
      const read = await runSandboxed(['cat', 'private.txt'])
      expect(read.out).toBe(mode === 0o755 ? '' : 'for root\n')
    })
})

/** Runs a command in a sandbox and waits for it. Stands for a craik process that is killed. */
const RUNNER_SCRIPT = `
const [module, isolation, workspace, craikHome, ...argv] = process.argv.slice(1)
const { processCommands } = await import(module)
const backend = processCommands({ craikHome, environment: process.env })
const sandbox = await backend.create({ isolation, workspace })
const show = (chunk) => void process.stdout.write(chunk)
await sandbox.boundary.exec({ argv, env: { PATH: '/usr/bin:/bin' }, timeoutMs: 600000, onStdout: show, onStderr: show })
`

function connectTo(address: string): string {
  return `use Socket; socket(S, PF_UNIX, SOCK_STREAM, 0) or exit 1; connect(S, pack_sockaddr_un(${address})) or exit 1`
}

/** Returns a duration that no other `sleep` process uses. */
function uniqueDuration(): string {
  return `${500 + Math.floor(Math.random() * 400)}.${Math.floor(Math.random() * 1e9)}1`
}

function findSleepers(mark: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8') === `sleep\0${mark}\0`
      } catch {
        return false
      }
    })
}

async function waitForSleeper(mark: string): Promise<void> {
  while (findSleepers(mark).length === 0) await sleep(20)
}

/** Waits without a limit of its own. A process that stays makes the test time out. */
async function waitForExit(mark: string): Promise<void> {
  while (findSleepers(mark).length > 0) await sleep(20)
}

function killSleepers(mark: string): void {
  for (const pid of findSleepers(mark)) process.kill(pid, 'SIGKILL')
}
