/** Real sandboxes of the process backend: as root, and as an ordinary user. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chownSync,
  existsSync,
  globSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { newId, type SandboxId } from '../../src/lib/ids.ts'
import { ownerOf } from '../../src/lib/owner.ts'
import type { InstanceHandle, SandboxSpec } from '../../src/sandboxes/backend.ts'
import { findInstanceProcesses } from '../../src/sandboxes/backends/process/instance-processes.ts'
import { NODE } from '../craik.ts'
import type { DriverRequest as AnyOrder } from '../instance-driver.fixture.ts'

const DRIVER = join(import.meta.dirname, '../instance-driver.fixture.ts')
type Order = Omit<AnyOrder, 'backend'>
const IS_ROOT = process.getuid?.() === 0
/** No user has this uid on a host that runs the tests. */
const ORDINARY = IS_ROOT ? 12_345 : process.getuid!()
const MIB = 1024 * 1024

const RUNNERS = [
  ...(IS_ROOT ? [{ who: 'root', uid: 0, hostUser: { uid: 2_100_012_345, gid: 2_100_012_345 } }] : []),
  { who: 'an ordinary user', uid: ORDINARY, hostUser: undefined },
]

interface RunnerLine {
  readonly handle?: InstanceHandle
  readonly limits?: unknown
  readonly hostUid?: number
  readonly command?: string
  readonly out?: string
  readonly err?: string
  readonly exit?: number
  readonly observed?: Record<string, number>
  readonly error?: { readonly code: string; readonly message: string; readonly hint?: string }
  readonly gone?: boolean
  readonly waiting?: boolean
  readonly ended?: string
  readonly destroyed?: boolean
  readonly swept?: boolean
}

describe.each(RUNNERS)('as $who', ({ uid, hostUser }) => {
  let folder: string
  let craikHome: string
  const made: SandboxSpec[] = []
  const own = (path: string) => IS_ROOT && chownSync(path, uid, uid)

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'craik-place-'))
    craikHome = join(folder, 'home')
    for (const path of [folder, craikHome, join(craikHome, 'sandboxes')]) {
      if (path !== folder) mkdirSync(path, { mode: 0o700 })
      own(path)
    }
  })
  afterAll(async () => {
    await sendOrder({ verb: 'clear', craikHome, specs: made })
    rmSync(folder, { recursive: true, force: true })
  })

  function specWith(changes: Partial<SandboxSpec> = {}): SandboxSpec {
    const id = newId<SandboxId>('sbx', Date.now())
    const spec: SandboxSpec = {
      id,
      isolation: 'process',
      folder: join(craikHome, 'sandboxes', id),
      workspace: { mode: 'copy' },
      limits: { memoryBytes: 512 * MIB, processes: 100, cpuMillis: 1500, diskBytes: 64 * MIB },
      hostUser,
      ...changes,
    }
    made.push(spec)
    return spec
  }

  /**
   * Creates a workspace that belongs to the ordinary user in both cases, so that root runs the sandbox as that user.
   */
  function workspace(name: string): { readonly path: string } & Pick<SandboxSpec, 'workspace' | 'hostUser'> {
    const path = join(folder, name)
    mkdirSync(path)
    execFileSync('git', ['init', '--quiet', path])
    writeFileSync(join(path, 'file.txt'), 'ours\n')
    if (IS_ROOT) execFileSync('chown', ['-R', `${ORDINARY}:${ORDINARY}`, path])
    const user = uid === 0 ? { uid: ORDINARY, gid: ORDINARY } : undefined
    return { path, workspace: { mode: 'in-place', folder: path }, hostUser: user }
  }

  const start = (order: Order): ChildProcess =>
    spawn(NODE, [DRIVER, JSON.stringify({ ...order, backend: 'process' } satisfies AnyOrder)], {
      cwd: folder,
      env: { PATH: process.env.PATH, NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE, HOME: folder },
      stdio: ['ignore', 'pipe', 'inherit'],
      ...(IS_ROOT && uid !== 0 && { uid, gid: uid }),
    })

  async function sendOrder(order: Order): Promise<RunnerLine[]> {
    const lines: RunnerLine[] = []
    for await (const line of createInterface({ input: start(order).stdout! })) lines.push(JSON.parse(line))
    return lines
  }

  /** Starts the driver, and returns as soon as it waits. */
  async function startAndWait(
    order: Order,
  ): Promise<{ readonly driver: ChildProcess; readonly lines: RunnerLine[] }> {
    const driver = start({ ...order, finish: 'wait' })
    const lines: RunnerLine[] = []
    for await (const line of createInterface({ input: driver.stdout! })) {
      lines.push(JSON.parse(line))
      if (lines.at(-1)?.waiting || lines.at(-1)?.error) break
    }
    return { driver, lines }
  }

  async function findLeftovers(spec: SandboxSpec): Promise<unknown[]> {
    const mounts = readFileSync('/proc/self/mountinfo', 'utf8').split('\n')
    const backing = globSync('/sys/block/loop*/loop/backing_file').map((path) => readIfThere(path))
    return [
      ...(await findInstanceProcesses(spec)),
      ...mounts.filter((line) => line.includes(spec.id)),
      ...globSync(`/sys/fs/cgroup/{,*/}craik/${spec.id}`),
      ...backing.filter((path) => path.includes(spec.id)),
    ]
  }

  /** Waits, because the kernel releases a loop device with a delay. */
  async function expectNothingLeft(spec: SandboxSpec): Promise<void> {
    const endsMs = performance.now() + 15_000
    while ((await findLeftovers(spec)).length > 0 && performance.now() < endsMs) await sleep(50)
    expect(await findLeftovers(spec)).toEqual([])
  }

  it('creates an instance whose sidecar responds, reports its isolation and limits, and leaves nothing when it is destroyed', async () => {
    const spec = specWith()
    const lines = await sendOrder({
      verb: 'create',
      craikHome,
      spec,
      run: ['id -u; pwd; env | grep -c ^CRAIK_', 'cat /opt/craik/node', 'cat /proc/1/comm'],
    })
    expect(lines[0]).toMatchObject({
      isolation: 'process',
      hostUid: hostUser?.uid ?? uid,
      limits:
        uid === 0
          ? { memory: 'cgroup', processes: 'cgroup', cpu: 'cgroup', disk: 'filesystem' }
          : { memory: 'per-process', processes: 'sandbox', cpu: 'not-enforced', disk: 'not-enforced' },
    })
    expect(lines[1]).toMatchObject({ out: '1000\n/workspace/home/project\n0\n' })
    expect(lines[2]).toMatchObject({ exit: 1, err: expect.stringContaining('Permission denied') })
    expect(lines[3]).toMatchObject({ out: 'tini\n' })
    expect(lines[4]?.observed?.memoryBytes).toBeGreaterThan(MIB)
    expect(lines.at(-1)).toEqual({ destroyed: true, ended: 'it was destroyed' })
    await expectNothingLeft(spec)
  })

  it('runs ordinary tools in the sandbox', async () => {
    const lines = await sendOrder({
      verb: 'create',
      craikHome,
      spec: specWith(),
      run: [
        'git init -q r && cd r && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m one && git log --oneline | wc -l',
        '/usr/bin/python3 -c "import multiprocessing as m; print(m.Pool(2).map(abs, [-1, -2]))"',
        "/opt/craik/node -e \"require('child_process').execSync('true'); console.log(6 * 7)\"",
        'perl -e "print qq(perl\\n)"; find / -maxdepth 1 | wc -l',
        'vim -es -u NONE -c "normal ihello" -c "wq! /tmp/v" x </dev/null; cat /tmp/v',
      ],
    })
    const failed = lines.filter(({ command, exit }) => command !== undefined && exit !== 0)
    expect(failed).toEqual([])
    expect(lines.find(({ command }) => command?.startsWith('vim'))?.out).toBe('hello\n')
  })

  it('is recovered unchanged by another process after its creator was killed', async () => {
    const spec = specWith()
    const { driver, lines } = await startAndWait({
      verb: 'create',
      craikHome,
      spec,
      run: ['echo kept > note; sleep 1000 >/dev/null 2>&1 & echo started'],
    })
    driver.kill('SIGKILL')
    await once(driver, 'exit')
    const again = await sendOrder({
      verb: 'recover',
      craikHome,
      spec,
      handle: lines[0]!.handle!,
      run: ['cat note; ps -e | grep -c sleep'],
    })
    expect(again[0]).toEqual(lines[0])
    expect(again[1]).toMatchObject({ out: 'kept\n1\n' })
    expect(again.at(-1)).toMatchObject({ destroyed: true })
    await expectNothingLeft(spec)
    expect(await sendOrder({ verb: 'recover', craikHome, spec, handle: lines[0]!.handle! })).toEqual([
      { gone: true },
    ])
  })

  it('reports when it ends by itself', async () => {
    const { driver, lines } = await startAndWait({ verb: 'create', craikHome, spec: specWith() })
    const rest = createInterface({ input: driver.stdout! })
    process.kill(Number(lines[0]!.handle!.innerPid), 'SIGKILL')
    for await (const line of rest) lines.push(JSON.parse(line))
    expect(lines.find(({ ended }) => ended !== undefined)?.ended).toMatch(/^its sidecar (exited|was killed)/)
  })

  it('is removed by a sweep without a record, whenever its creator was killed', async () => {
    const { path, ...place } = workspace('swept')
    const before = listing(path)
    for (let delayMs = 0; delayMs <= 600; delayMs += 50) {
      const spec = specWith(place)
      const driver = start({ verb: 'create', craikHome, spec, finish: 'wait' })
      await sleep(delayMs)
      driver.kill('SIGKILL')
      await once(driver, 'exit')
      mkdirSync(spec.folder, { recursive: true })
      expect(await sendOrder({ verb: 'sweep', craikHome, spec })).toEqual([{ swept: true }])
      await expectNothingLeft(spec)
      expect(listing(path)).toEqual(before)
    }
  })

  it('works in place as the owner, but changes no file that programs of the host trust', async () => {
    const { path, ...place } = workspace('in-place')
    mkdirSync(join(path, '.vscode'))
    writeFileSync(join(path, '.vscode/tasks.json'), '{}')
    const before = listing(path)
    const spec = specWith(place)
    const attempts = [
      '.git/hooks/pre-commit',
      '.git/config',
      '.git/commondir',
      '.claude/settings.json',
      '.envrc',
      '.vscode/tasks.json',
      '.mcp.json',
      '.git/worktrees/x',
      '.husky/pre-push',
    ]
    const lines = await sendOrder({
      verb: 'create',
      craikHome,
      spec,
      run: [
        'echo changed > file.txt; git status --short',
        ...attempts.map((name) => `echo evil >> ${name}`),
        'mv .git other',
        'mv .vscode other',
        'rm -rf .claude',
        'ln -sf /etc/passwd .envrc',
        'git -c user.name=a -c user.email=a@b commit -q --allow-empty -m inside && git log --oneline | wc -l',
      ],
    })
    const ran = lines.filter(({ command }) => command !== undefined)
    expect(ran[0]).toMatchObject({ exit: 0, out: '?? .vscode/\n?? file.txt\n' })
    expect(ran.slice(1, -1).filter(({ exit }) => exit === 0)).toEqual([])
    expect(ran.at(-1)).toMatchObject({ out: '1\n' })
    expect(readFileSync(join(path, 'file.txt'), 'utf8')).toBe('changed\n')
    expect(lstatSync(join(path, 'file.txt')).uid).toBe(ORDINARY)
    expect(listing(path)).toEqual(before)
    expect(existsSync(join(path, '.git/hooks/pre-commit'))).toBe(false)
  })

  it('keeps the protected files that another sandbox in the same folder still needs', async () => {
    const { path, ...place } = workspace('shared')
    const before = listing(path)
    const first = specWith(place)
    const { driver } = await startAndWait({ verb: 'create', craikHome, spec: first })
    const second = await sendOrder({
      verb: 'create',
      craikHome,
      spec: specWith(place),
      run: ['touch .claude/x'],
    })
    expect(second[1]).toMatchObject({ exit: 1 })
    expect(existsSync(join(path, '.claude'))).toBe(true)
    driver.kill('SIGKILL')
    await sendOrder({ verb: 'sweep', craikHome, spec: first })
    expect(listing(path)).toEqual(before)
  })

  it('refuses a workspace that it cannot protect, or with a link in place of protected files', async () => {
    const { path, ...place } = workspace('unfit')
    const server = createServer().listen(join(path, 'listening.sock'))
    await once(server, 'listening')
    expect(await refusal(place)).toMatchObject({
      code: 'usage',
      message: /contains sockets.*: listening\.sock$/,
    })
    server.close()
    await once(server, 'close')
    symlinkSync('/etc', join(path, '.claude'))
    expect(await refusal(place)).toMatchObject({
      code: 'usage',
      message: /^\.claude in the workspace is a symbolic link/,
    })
    expect(readdirSync(path).sort()).toEqual(['.claude', '.git', 'file.txt'])
  })

  async function refusal(place: Partial<SandboxSpec>) {
    const spec = specWith(place)
    const [line] = await sendOrder({ verb: 'create', craikHome, spec })
    await expectNothingLeft(spec)
    const { code, message } = line!.error!
    return { code, message: { asymmetricMatch: (pattern: RegExp) => pattern.test(message) } }
  }

  it('without isolation reports isolation none, and its processes end with it', async () => {
    const spec = specWith({ isolation: 'none', hostUser: undefined })
    const { driver, lines } = await startAndWait({
      verb: 'create',
      craikHome,
      spec,
      run: ['id -u; sleep 1000 >/dev/null 2>&1 & echo $!'],
    })
    expect(lines[0]).toMatchObject({
      isolation: 'none',
      limits: { memory: 'not-enforced', disk: 'not-enforced' },
    })
    const [inside, sleeper] = lines[1]!.out!.trim().split('\n')
    expect(Number(inside)).toBe(uid)
    expect(ownerOf(Number(sleeper))).toBeDefined()
    driver.kill('SIGKILL')
    await once(driver, 'exit')
    const again = await sendOrder({
      verb: 'recover',
      craikHome,
      spec,
      handle: lines[0]!.handle!,
      run: ['echo back'],
    })
    expect(again[1]).toMatchObject({ out: 'back\n' })
    expect(ownerOf(Number(sleeper))).toBeUndefined()
    await expectNothingLeft(spec)
  })
})

function listing(folder: string): string[] {
  const top = readdirSync(folder).map((name) => name)
  return [...top, ...['hooks', 'info', ''].flatMap((name) => readdirSync(join(folder, '.git', name)))]
    .filter((name) => !['COMMIT_EDITMSG', 'index', 'logs'].includes(name))
    .sort()
}

function readIfThere(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
