/**
 * Containers of the warm pool for sandboxes with host folders. An adopted container gets all of the folders, or none.
 */
import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import {
  chownSync,
  copyFileSync,
  existsSync,
  lstatSync,
  readdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { setImmediate, setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import type { SandboxBody, SupervisorBody } from '../../src/operator/api/bodies.ts'
import { homeFilter } from '../../src/sandboxes/backends/docker/container-names.ts'
import { openEngine } from '../../src/sandboxes/backends/docker/engine/engine.ts'
import { ENGINE_IS_NEEDED } from '../engine-here.ts'
import { SupervisorKiller } from '../faults/supervisor-kill.ts'
import { canBe, ROOT_IS_NEEDED, SandboxHome, USER_UID } from '../sandbox-home.ts'
import { SocketProxy } from './socket-proxy.fixture.ts'

const POLL_MS = 50
const LINES = ['socket', 'relay'] as const
const missing = canBe('root') ? ENGINE_IS_NEEDED : ROOT_IS_NEEDED

/** Waits until `look` returns a value. Only the test's own timeout limits it. */
async function eventually<T>(look: () => Promise<T | undefined>): Promise<T> {
  for (;;) {
    const found = await look()
    if (found !== undefined) return found
    await sleep(POLL_MS)
  }
}

/** Returns the command lines of all processes on the host. */
function commands(): string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        return [readFileSync(`/proc/${pid}/cmdline`, 'latin1').replaceAll('\0', ' ')]
      } catch {
        return []
      }
    })
}

/** A Craik home whose pool has one container, for one kind of sandbox at a time. */
class Scene implements AsyncDisposable {
  readonly home: SandboxHome
  readonly gate: SocketProxy
  readonly line: (typeof LINES)[number]

  private constructor(home: SandboxHome, gate: SocketProxy, line: (typeof LINES)[number]) {
    this.home = home
    this.gate = gate
    this.line = line
  }

  static async open(line: (typeof LINES)[number]): Promise<Scene> {
    const home = await SandboxHome.open({ identity: 'root', backend: 'docker', line, warm: 1 })
    return new Scene(home, await SocketProxy.open(process.env.CRAIK_ENGINE!, home.folder), line)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.gate.reopen()
    await this.home[Symbol.asyncDispose]()
    this.gate.shut()
  }

  /** The command that starts the supervisor selects the engine. */
  get proxyOptions() {
    return { env: { CRAIK_ENGINE: `unix://${this.gate.path}` } }
  }

  run(args: readonly string[]) {
    return this.home.run(args, this.proxyOptions)
  }

  tryToCreate(...args: string[]) {
    const createArgs = ['sandbox', 'create', '--format', 'json', '--backend', 'docker', '--line', this.line]
    return this.home.run([...createArgs, ...args], this.proxyOptions)
  }

  async create(...args: string[]): Promise<SandboxBody> {
    const { code, stdout, stderr } = await this.tryToCreate(...args)
    if (code !== 0) throw new Error(`craik sandbox create ${args.join(' ')} exited ${code}: ${stderr}`)
    return JSON.parse(stdout) as SandboxBody
  }

  async delete(...names: string[]): Promise<void> {
    for (const name of names) expect((await this.run(['sandbox', 'delete', '--yes', name])).code).toBe(0)
  }

  async inside(name: string, script: string): Promise<string> {
    const { stdout, stderr } = await this.run(['sandbox', 'exec', name, '--', 'sh', '-c', script])
    return stdout + stderr
  }

  waitForWarm(): Promise<true> {
    const status = ['supervisor', 'status', '--format', 'json']
    return eventually(async () =>
      (await this.home.json<SupervisorBody>(status, this.proxyOptions)).warm === 1 ? true : undefined,
    )
  }

  async isWarm(id: string): Promise<boolean> {
    const { stdout } = await this.run(['receipts', 'list', '--format', 'jsonl'])
    return stdout
      .trim()
      .split('\n')
      .map((text) => JSON.parse(text).body ?? JSON.parse(text))
      .filter((body) => body.phase === 'end' && body.links.sandbox_id === id)
      .some((body) => body.metadata?.warm === true)
  }

  async containers() {
    const { docker } = await openEngine(process.env)
    return docker.listContainers({ all: true, filters: { label: [homeFilter(this.home.home)] } })
  }

  /** Returns the mounts on the host that belong to this home, without the disks of sandboxes. */
  readHotMounts(): string[] {
    const lines = readFileSync('/proc/self/mountinfo', 'utf8').split('\n')
    return lines
      .map((line) => line.split(' ')[4]!)
      .filter((at) => at?.startsWith(`${this.home.home}/sandboxes`) && !at.endsWith('/data'))
  }

  async mountsInside(id: string): Promise<string[][]> {
    const { docker } = await openEngine(process.env)
    const found = (await this.containers()).find(({ Labels }) => Labels['craik.sandbox'] === id)
    const { State } = await docker.getContainer(found!.Id).inspect()
    const lines = readFileSync(`/proc/${State.Pid}/mountinfo`, 'utf8').trim().split('\n')
    return lines.map((line) => line.split(' '))
  }
}

describe.skipIf(missing !== undefined).each(LINES)(
  `${missing ?? 'a container that waits'}, over a %s`,
  (line) => {
    let scene: Scene
    let home: SandboxHome
    beforeAll(async () => {
      scene = await Scene.open(line)
      home = scene.home
    })
    afterAll(() => scene[Symbol.asyncDispose]())

    const project = (name: string) => {
      const folder = home.workspace(name, { 'file.txt': 'ours\n', '.npmrc': 'theirs\n' })
      execFileSync('git', ['init', '-q', folder])
      execFileSync('chown', ['-R', `${USER_UID}:${USER_UID}`, folder])
      return folder
    }

    it('gets the workspace itself with its protected files, also while the engine does not answer', async () => {
      const [first, second] = [project('first'), project('second')]
      await scene.create('--name', 'first', '--in-place', '--workspace', first)
      await scene.waitForWarm()
      if (line === 'socket') scene.gate.shut()
      const made = await scene.create('--name', 'second', '--in-place', '--workspace', second)
      await scene.gate.reopen()
      expect(made).toMatchObject({ state: 'running', connected: true })
      expect(await scene.isWarm(made.id)).toBe(true)
      expect(
        await scene.inside('second', 'pwd; cat file.txt; echo new > made.txt; mkdir -p a/b; id -u'),
      ).toBe(`/workspace/home/project\nours\n${USER_UID}\n`)
      expect(readFileSync(join(second, 'made.txt'), 'utf8')).toBe('new\n')
      expect(lstatSync(join(second, 'made.txt')).uid).toBe(USER_UID)
      for (const path of [
        '.git/hooks/pre-commit',
        '.git/config',
        '.git/info/exclude',
        '.claude/x',
        '.npmrc',
        '.envrc',
      ])
        expect(await scene.inside('second', `echo x >> ${path}`), path).toMatch(/Read-only|Permission/)
      expect(await scene.inside('second', 'mv .git .gone; rm -rf .vscode; mv .npmrc other')).toMatch(/busy/)
      expect(
        await scene.inside('second', 'git status --short; git add . && git commit -qm one && echo committed'),
      ).toContain('?? file.txt')
      expect(readFileSync(join(second, '.npmrc'), 'utf8')).toBe('theirs\n')
      // The new warm container may have mounts on the host. The adopted one has none.
      await scene.waitForWarm()
      expect(scene.readHotMounts().filter((at) => at.includes(made.id))).toEqual([])
      for (const fields of await scene.mountsInside(made.id)) {
        const tags = fields.slice(6, fields.indexOf('-'))
        expect(
          tags.filter((tag) => tag.startsWith('shared:')),
          fields.join(' '),
        ).toEqual([])
      }
    })

    it('ends like any other sandbox when the host replaces a protected file', async () => {
      const showSecond = () => home.json<SandboxBody>(['sandbox', 'show', 'second', '--format', 'json'])
      copyFileSync(home.path('second/.npmrc'), home.path('second/.npmrc.new'))
      chownSync(home.path('second/.npmrc.new'), USER_UID, USER_UID)
      renameSync(home.path('second/.npmrc.new'), home.path('second/.npmrc'))
      await vi.waitUntil(async () => (await showSecond()).state === 'lost', { timeout: 30_000 })
      expect(await showSecond()).toMatchObject({ notice: expect.stringContaining('.npmrc in its workspace') })
      expect((await scene.run(['sandbox', 'resume', 'second'])).code).toBe(0)
    })

    it('is stopped, resumed and deleted like any other sandbox after its adoption, and leaves the folder unchanged', async () => {
      expect((await scene.run(['sandbox', 'stop', 'second'])).code).toBe(0)
      expect(readdirSync(home.path('second')).sort()).toEqual(['.git', '.npmrc', 'a', 'file.txt', 'made.txt'])
      expect((await scene.run(['sandbox', 'resume', 'second'])).code).toBe(0)
      expect(await scene.inside('second', 'cat made.txt; echo x > .envrc')).toMatch(/^new\n.*Read-only/s)
      await scene.delete('first', 'second')
      expect(readdirSync(home.path('second')).sort()).toEqual(['.git', '.npmrc', 'a', 'file.txt', 'made.txt'])
    })

    it('gets mounted folders that cannot be changed in any way', async () => {
      const folder = home.workspace('library', { 'book.txt': 'chapter one\n', 'deep/er.txt': 'two\n' })
      await scene.create('--name', 'reader', '--mount', `${folder}:books`)
      await scene.waitForWarm()
      const made = await scene.create('--name', 'other', '--mount', `${folder}:books`, '--mount', folder)
      expect(await scene.isWarm(made.id)).toBe(true)
      expect(
        await scene.inside('other', 'ls /mnt; cat /mnt/books/book.txt /mnt/library/deep/er.txt; ls -A'),
      ).toBe('books\nlibrary\nchapter one\ntwo\n')
      for (const attempt of [
        'echo x >> /mnt/books/book.txt',
        ': > /mnt/books/new',
        'mkdir /mnt/more',
        'rm /mnt/library/book.txt',
        'mount -o remount,bind,rw /mnt/books',
        'umount /mnt/books',
        'unshare -Urm umount /mnt/books',
      ])
        expect(await scene.inside('other', attempt), attempt).toMatch(
          /Read-only|[Pp]ermission|not permitted|superuser/,
        )
      const points = (await scene.mountsInside(made.id)).filter((fields) => fields[4]!.startsWith('/mnt'))
      for (const fields of points) expect(fields[5]!.split(','), fields.join(' ')).toContain('ro')
      await scene.delete('reader', 'other')
    })

    it('refuses what a newly started container refuses, with the same error, and leaves nothing', async () => {
      const folder = project('piped')
      await scene.create('--name', 'one', '--in-place', '--workspace', project('plain'))
      await scene.waitForWarm()
      execFileSync('mkfifo', [join(folder, 'pipe')])
      renameSync(join(folder, '.npmrc'), join(folder, 'real'))
      symlinkSync('/etc/passwd', join(folder, '.npmrc'))
      const warm = await scene.tryToCreate('--name', 'two', '--in-place', '--workspace', folder)
      const cold = await scene.tryToCreate(
        '--name',
        'two',
        '--in-place',
        '--workspace',
        folder,
        '--memory',
        '300m',
      )
      expect([warm.code, warm.stderr]).toEqual([cold.code, cold.stderr])
      expect(warm.code).toBe(2)
      expect(readdirSync(folder).sort()).toEqual(['.git', '.npmrc', 'file.txt', 'pipe', 'real'])
      await scene.delete('one')
    })

    it('is discarded if it no longer receives mounts, and a container is started instead', async () => {
      await scene.create('--name', 'one', '--in-place', '--workspace', project('followed'))
      await scene.waitForWarm()
      for (const point of scene.readHotMounts().toReversed()) execFileSync('umount', [point])
      const made = await scene.create('--name', 'two', '--in-place', '--workspace', project('lost'))
      expect(await scene.isWarm(made.id)).toBe(false)
      expect(await scene.inside('two', 'cat file.txt; echo x > .envrc')).toMatch(/^ours\n.*Read-only/s)
      await scene.delete('one', 'two')
      expect(readdirSync(home.path('lost')).sort()).toEqual(['.git', '.npmrc', 'file.txt'])
    })

    it.each([
      [
        'before anything was mounted',
        (id: string) => existsSync(join(home.home, 'sandboxes', id, 'stubs.json')),
      ],
      [
        'while it is put together',
        (id: string) => commands().some((text) => text.includes(`${id}/late/stage`)),
      ],
      ['while it is shown', (id: string) => commands().some((text) => text.includes(`${id}/late/shared`))],
    ])('leaves nothing on the host when its supervisor is killed %s', async (_, isNow) => {
      const killer = new SupervisorKiller(home.home)
      const folder = project(`killed-${randomUUID()}`)
      const first = await scene.create('--in-place', '--workspace', project(`before-${randomUUID()}`))
      await scene.waitForWarm()
      const warm = readdirSync(join(home.home, 'sandboxes')).find((id) => id !== first.id)!
      await killer.current()
      const creating = scene.tryToCreate('--in-place', '--workspace', folder)
      while (!isNow(warm)) await setImmediate()
      await killer.kill()
      await creating
      // The next supervisor removes unfinished work. The client repeats a request that had not begun.
      const list = ['sandbox', 'list', '--format', 'json']
      const listed = await eventually(async () => {
        const found = await home.json<SandboxBody[]>(list, scene.proxyOptions)
        const folders = readdirSync(join(home.home, 'sandboxes')).sort()
        const ids = found.map((one) => one.id).sort()
        return JSON.stringify(ids) === JSON.stringify(folders) ? found : undefined
      })
      // If the supervisor had finished before the kill, it created a sandbox like any other.
      for (const { id } of listed.filter((one) => one.id !== first.id)) {
        expect(await scene.inside(id, 'cat file.txt')).toBe('ours\n')
        await scene.delete(id)
      }
      expect((await home.json<SandboxBody>(['sandbox', 'show', first.id, '--format', 'json'])).state).toBe(
        'running',
      )
      expect(scene.readHotMounts()).toEqual([])
      expect(await scene.containers()).toHaveLength(1)
      expect(commands().filter((text) => text.includes(warm))).toEqual([])
      expect(readdirSync(folder).sort()).toEqual(['.git', '.npmrc', 'file.txt'])
      await scene.delete(first.id)
      expect((await scene.run(['receipts', 'verify'])).code).toBe(0)
    })

    it('ends with its supervisor', async () => {
      await scene.create('--name', 'last', '--in-place', '--workspace', project('last'))
      await scene.waitForWarm()
      expect(scene.readHotMounts().length).toBeGreaterThan(0)
      expect((await scene.run(['supervisor', 'stop'])).code).toBe(0)
      expect(scene.readHotMounts()).toEqual([])
      expect(readdirSync(join(home.home, 'sandboxes'))).toHaveLength(1)
      expect(existsSync(home.path('last/.claude'))).toBe(true)
      writeFileSync(home.path('last/seen.txt'), 'seen\n')
      expect(await scene.inside('last', 'cat seen.txt')).toBe('seen\n')
    })
  },
)
