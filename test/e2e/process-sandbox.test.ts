/** Attacks from inside the process sandbox. Each succeeds with the same command where there is no isolation. */
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

/** Numbers of the calls that the attacks make by hand. */
const CALLS = process.arch === 'arm64' ? { socket: 198, keyctl: 219 } : { socket: 41, keyctl: 250 }

/** As root, once with an identity given up and once, where the workspace is closed to others, without. */
const PLACES: [string, number][] = ROOT_USER
  ? [
      ['a workspace that anybody may read', 0o755],
      ['a workspace that only root may read', 0o700],
    ]
  : [['the workspace of an ordinary user', 0o755]]

describe.each(PLACES)('in %s', (_, mode) => {
  let folder: string
  let workspace: string
  let sandboxed: CommandSandbox
  let open: CommandSandbox
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
    open = await backend.create({ isolation: 'none', workspace })
  })
  afterAll(async () => {
    for (const server of servers) server.close()
    await sandboxed.destroy()
    rmSync(folder, { recursive: true, force: true })
  })

  const inside = (argv: readonly string[], options = {}): Promise<Collected> => exec(sandboxed, argv, options)
  const outside = (argv: readonly string[], options = {}): Promise<Collected> => exec(open, argv, options)
  const hasPassed = ({ run }: Collected) => run.end === 'exited' && run.exitCode === 0

  /** The attack succeeds without the defence and fails with it. */
  async function fails(argv: readonly string[]): Promise<Collected> {
    expect(await outside(argv)).toSatisfy(hasPassed)
    const attack = await inside(argv)
    expect(attack).not.toSatisfy(hasPassed)
    expect(attack.out).not.toContain(SECRET)
    return attack
  }

  it('a command does read the workspace', async () => {
    expect(await inside(['cat', 'readme.txt'])).toMatchObject({ out: 'hello\n' })
    expect(await inside(['pwd'])).toMatchObject({ out: '/workspace\n' })
  })

  it('the host’s loopback is out of reach', async () => {
    const server = createServer((socket) => socket.end())
    servers.push(server)
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
    const { port } = server.address() as { port: number }
    await fails(['bash', '-c', `exec 3<>/dev/tcp/127.0.0.1/${port}`])
  })

  it('there is no network at all', async () => {
    const { out } = await inside(['cat', '/proc/net/dev'])
    const devices = out.split('\n').flatMap((line) => /^\s*(\S+):/.exec(line)?.[1] ?? [])
    expect(devices).toEqual(['lo'])
    expect(await inside(['bash', '-c', 'exec 3<>/dev/tcp/192.0.2.1/80'])).not.toSatisfy(hasPassed)
  })

  it('an abstract socket of the host is out of reach', async () => {
    const name = `craik-${randomBytes(6).toString('hex')}`
    const server = createServer((socket) => socket.end())
    servers.push(server)
    await new Promise<void>((done) => server.listen(`\0${name}`, done))
    await fails(['perl', '-e', connectTo(`"\\0${name}"`)])
  })

  it('a socket that a program of the host left in the workspace is out of reach', async () => {
    const server = createServer((socket) => socket.end())
    servers.push(server)
    await new Promise<void>((done) => server.listen(join(workspace, 'control.sock'), done))
    chmodSync(join(workspace, 'control.sock'), 0o777)
    await fails(['perl', '-e', connectTo('"control.sock"')])
  })

  it('a pair of sockets, which reaches nobody, still works', async () => {
    const pair = 'use Socket; socketpair(A, B, AF_UNIX, SOCK_STREAM, 0) or exit 1'
    expect(await inside(['perl', '-e', pair])).toSatisfy(hasPassed)
  })

  it('vsock, which no network namespace holds, is refused', async () => {
    const ask = `my $r = syscall(${CALLS.socket}, 40, 1, 0); print $! + 0; exit($r < 0)`
    expect(await inside(['perl', '-e', ask])).toMatchObject({ run: { exitCode: 1 }, out: '97' })
  })

  it('the kernel’s keys of the host’s session are out of reach', async () => {
    await fails(['perl', '-e', `exit(syscall(${CALLS.keyctl}, 0, -3, 0) < 0)`])
  })

  it('other files of the host are not there: beside the workspace, in /tmp, behind a link', async () => {
    await fails(['cat', join(folder, 'beside.txt')])
    await fails(['cat', '../beside.txt'])
    await fails(['cat', 'link'])
    await fails(['ls', tmpdir() === '/tmp' ? folder : tmpdir()])
  })

  it('homes, /run, /var, /root and /sys are not there', async () => {
    const { out } = await inside(['ls', '-A', '/'])
    for (const name of ['root', 'run', 'var', 'sys', 'mnt', 'srv', 'boot'])
      expect(out.split('\n')).not.toContain(name)
    expect((await inside(['ls', '/home'])).out).toBe('sandbox\n')
    expect((await inside(['sh', '-c', 'ls -A ~ /tmp'])).out).not.toContain('craik')
  })

  it('of /etc there is what programs need: no shadow, no accounts, no keys', async () => {
    await fails(['grep', '-q', '^root:', ROOT_USER ? '/etc/shadow' : '/etc/passwd'])
    const { out } = await inside(['ls', '-A', '/etc'])
    const names = out.trim().split('\n')
    for (const name of ['shadow', 'gshadow', 'sudoers', 'ssh', 'machine-id', 'hostname'])
      expect(names).not.toContain(name)
    expect((await inside(['cat', '/etc/passwd'])).out).not.toContain('root')
    expect((await inside(['whoami'])).out).toBe('sandbox\n')
  })

  it('Craik’s home is covered although it lies in the workspace', async () => {
    await fails(['cat', '.craik/secrets/log.key'])
    expect((await inside(['ls', '-A', '.craik'])).out).toBe('')
    expect(await inside(['touch', '.craik/x'])).not.toSatisfy(hasPassed)
    expect(await inside(['grep', '-rs', SECRET, '/workspace', '/home', '/tmp'])).not.toSatisfy(hasPassed)
  })

  it('processes of the host can be neither seen nor signalled', async () => {
    await fails(['sh', '-c', `kill -0 ${process.pid}`])
    const { out } = await inside(['sh', '-c', 'echo /proc/[0-9]*'])
    expect(out.trim().split(' ').length).toBeLessThan(5)
  })

  it('nothing can be written but /tmp and the home, which are the sandbox’s own', async () => {
    await fails(['sh', '-c', 'echo x > written && rm written'])
    for (const path of ['/usr/x', '/x', '/etc/x', '/home/x', '/workspace/readme.txt', '/bin/x', '/dev/x'])
      expect(await inside(['sh', '-c', `echo x > ${path}`])).not.toSatisfy(hasPassed)
    expect(await inside(['sh', '-c', 'echo x > /tmp/x && echo x > ~/x && cat /tmp/x ~/x'])).toMatchObject({
      out: 'x\nx\n',
    })
    expect((await inside(['sh', '-c', 'cat /tmp/x ~/x'])).out).toBe('')
  })

  it('settings of the kernel cannot be changed', async () => {
    // Each writes what is there already, so that an attack which succeeds does no harm.
    const rewrite = (path: string) => ['sh', '-c', `value=$(cat ${path}) && echo "$value" > ${path}`]
    if (ROOT_USER) await fails(rewrite('/proc/sys/kernel/core_pattern'))
    for (const path of [
      '/proc/sys/kernel/core_pattern',
      '/proc/sys/vm/swappiness',
      '/proc/self/oom_score_adj',
    ])
      expect(await inside(rewrite(path))).not.toSatisfy(hasPassed)
    expect((await inside(['cat', '/proc/mounts'])).out).toMatch(/^proc \/proc proc ro,/m)
  })

  it('no new user namespace can be made, and nothing mounted', async () => {
    await fails(['unshare', '--user', 'true'])
    const mount = 'mount -t tmpfs none /tmp'
    expect(await inside(['sh', '-c', mount])).not.toSatisfy(hasPassed)
    if (ROOT_USER) expect(await outside(['unshare', '--mount', 'sh', '-c', mount])).toSatisfy(hasPassed)
    expect(await inside(['mount', '-o', 'remount,rw', '/workspace'])).not.toSatisfy(hasPassed)
    expect(await inside(['umount', '/workspace/.craik'])).not.toSatisfy(hasPassed)
    expect(await inside(['mknod', '/tmp/disk', 'b', '8', '0'])).not.toSatisfy(hasPassed)
  })

  it('no capability is held, and none can be gained', async () => {
    const { out } = await inside(['cat', '/proc/self/status'])
    for (const set of ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'])
      expect(out).toMatch(new RegExp(`^${set}:\\s+0{16}$`, 'm'))
    expect(out).toMatch(/^NoNewPrivs:\s+1$/m)
    expect(out).toMatch(/^Seccomp:\s+2$/m)
  })

  if (ROOT_USER)
    it('a program that is setuid root does not become root', async () => {
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
      expect((await inside(['./suid-id'])).out).toMatch(/^uid=1000\(sandbox\) gid=1000\(sandbox\)[^e]*$/)
    })

  it('nothing of ours is inherited: no variable, no open file', async () => {
    const env = await inside(['env'])
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
    const files = (await inside(['perl', '-e', list])).out.trim().split('\n')
    // The folder that is being listed, and what stands where a descriptor was left open for us.
    expect(files.filter((name) => name !== '/dev/null' && !/^\/proc\/\d+\/fd$/.test(name))).toEqual([])
    expect((await inside(['cat', '/proc/1/environ'])).out).toBe('')
  })

  it('a file that craik was started with open stays out of reach', async () => {
    for (const isolation of ['none', 'process']) {
      const reader = ['bash', '-c', 'cat <&200']
      const holder = [HOLDER, backendModule, isolation, workspace, join(workspace, '.craik'), ...reader]
      const script = `exec 200< ${join(folder, 'beside.txt')}; exec "$@"`
      const { out } = await outside([
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
    const mark = marker()
    const daemon = ['sh', '-c', `setsid sleep ${mark} >/dev/null 2>&1 & sleep 0.2; echo started`]
    expect((await outside(daemon)).out).toBe('started\n')
    expect(running(mark)).toHaveLength(1)
    endAll(mark)
    expect((await inside(daemon)).out).toBe('started\n')
    await waitForExit(mark)
  })

  it('a time limit ends all that was started, in whatever session', async () => {
    const mark = marker()
    const script = `trap '' TERM; setsid sleep ${mark} & (trap '' TERM; sleep ${mark}) & sleep ${mark}`
    const { run } = await inside(['sh', '-c', script], { timeoutMs: 700, graceMs: 200 })
    expect(run.end).toBe('timeout')
    await waitForExit(mark)
  })

  it('when craik itself is killed, what it ran is gone too', async () => {
    for (const isolation of ['none', 'process']) {
      const mark = marker()
      const holder = spawn(
        NODE,
        [
          '--input-type=module',
          '-e',
          HOLDER,
          backendModule,
          isolation,
          workspace,
          join(workspace, '.craik'),
          'sleep',
          mark,
        ],
        { stdio: 'ignore', env: { PATH: process.env.PATH } },
      )
      await appears(mark)
      holder.kill('SIGKILL')
      if (isolation === 'process') await waitForExit(mark)
      else {
        await sleep(300)
        expect(running(mark)).toHaveLength(1)
        endAll(mark)
      }
    }
  })

  it('destroying the place ends what runs in it', async () => {
    const mark = marker()
    const backend = processCommands({
      craikHome: join(workspace, '.craik'),
      environment: { PATH: process.env.PATH },
    })
    const instance = await backend.create({ isolation: 'process', workspace })
    const ended = exec(instance, ['sleep', mark])
    await appears(mark)
    await instance.destroy()
    expect((await ended).run.end).toBe('cancelled')
    await waitForExit(mark)
  })

  if (ROOT_USER)
    it('root gives up its identity wherever the workspace can be read without it', async () => {
      expect(sandboxed.hostUid).toBe(mode === 0o755 ? 65534 : 0)
      writeFileSync(join(workspace, 'private.txt'), 'for root\n', { mode: 0o600 })
      const read = await inside(['cat', 'private.txt'])
      expect(read.out).toBe(mode === 0o755 ? '' : 'for root\n')
    })
})

/** Runs a command in a place and waits for it: what a craik that gets killed looks like. */
const HOLDER = `
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

/** A duration that no other process sleeps for. */
function marker(): string {
  return `${500 + Math.floor(Math.random() * 400)}.${Math.floor(Math.random() * 1e9)}1`
}

function running(mark: string): number[] {
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

async function appears(mark: string): Promise<void> {
  while (running(mark).length === 0) await sleep(20)
}

/** Waits for as long as the test may; a process that stays makes it fail. */
async function waitForExit(mark: string): Promise<void> {
  while (running(mark).length > 0) await sleep(20)
}

function endAll(mark: string): void {
  for (const pid of running(mark)) process.kill(pid, 'SIGKILL')
}
