/**
 * Podman behind its socket for Docker's API: the same sandboxes, created, inspected, kept and removed without a trace.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { SandboxBody, SnapshotBody } from '../../src/operator/api/bodies.ts'
import type { Engine } from '../../src/sandboxes/backends/docker/engine/engine.ts'
import { mountTable } from '../../src/sandboxes/backends/docker/mount-table.ts'
import type { ContractInstance } from '../contract/sandbox/instance.ts'
import { networkContract } from '../contract/sandbox/network.ts'
import { prepareSandboxImage } from '../engine-image.ts'
import { TestPodman, whyNoPodman } from '../podman.ts'
import { type LiveSandbox, SandboxHome } from '../sandbox-home.ts'

const MIB = 1024 * 1024
const missing = whyNoPodman()

describe.skipIf(missing !== undefined)(missing ? `skipped: ${missing}` : 'Podman', () => {
  let podman: TestPodman
  let engine: Engine
  beforeAll(async () => {
    podman = await TestPodman.start()
    engine = await podman.open()
    await prepareSandboxImage(engine)
  })
  afterAll(() => podman?.[Symbol.asyncDispose]())

  const open = (line: 'socket' | 'relay') =>
    SandboxHome.open({ identity: 'root', backend: 'docker', engine: podman.address, line })

  describe('over a socket', () => {
    let home: SandboxHome
    let box: LiveSandbox
    let pid: number
    beforeAll(async () => {
      home = await open('socket')
      box = await home.create(['--name', 'box', '--memory', '256m', '--pids', '64', '--disk', '64m'])
      pid = (await engine.docker.getContainer(home.containers[0]!).inspect()).State.Pid
    })
    afterAll(() => home?.[Symbol.asyncDispose]())

    const inside = async (name: string, script: string) => {
      const ran = await home.run(['sandbox', 'exec', name, '--no-stdin', '--', 'sh', '-c', script])
      expect(ran).toMatchObject({ code: 0 })
      return ran.stdout
    }
    const runSuccessfully = async (...args: string[]) => expect((await home.run(args)).code).toBe(0)

    it('has no network and no capabilities, and can write only to its own folders', async () => {
      const script = 'id -u; grep -c : /proc/net/dev; touch /etc/x /usr/x /x; cat /proc/self/status'
      const { stdout, stderr } = await box.exec(['sh', '-c', script])
      expect(stdout).toMatch(/^[1-9]\d*\n1\n/)
      expect(stdout).toMatch(/^CapBnd:\t0{16}$/m)
      expect(stdout).toMatch(/^NoNewPrivs:\t1$/m)
      expect(stdout).toMatch(/^Seccomp:\t2$/m)
      expect(stderr.match(/Read-only file system/g)).toHaveLength(3)
      const writable = mountTable(pid)
        .filter(({ options, point }) => !options.includes('ro') && !/^\/(?:dev|proc|sys)(?:\/|$)/.test(point))
        .map(({ point }) => point)
      expect(new Set(writable)).toEqual(new Set(['/workspace/home', '/var/spool/craik', '/tmp', '/run']))
    })

    it('gets nothing from the environment of its engine', () => {
      const names = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').filter(Boolean)
      expect(
        names.filter((one) => !/^(?:PATH|LANG|CRAIK_\w+|TERM|HOME|HOSTNAME|container)=/.test(one)),
      ).toEqual([])
    })

    it('has in-memory file systems of the requested sizes, and its own /run', async () => {
      const sizes = await box.exec([
        'df',
        '--output=target,size',
        '--block-size=1M',
        '/tmp',
        '/run',
        '/var/tmp',
      ])
      expect(
        sizes.stdout
          .trim()
          .split('\n')
          .slice(1)
          .map((row) => row.split(/\s+/).join(' ')),
      ).toEqual(['/tmp 128', '/run 16', '/tmp 128'])
      // `/run` contains the logins and the gateway's socket.
      expect((await box.exec(['stat', '-c', '%U %a', '/run'])).stdout).toBe('agent 755\n')
    })

    it('has its limits enforced by the kernel', async () => {
      expect(box.body.enforced).toMatchObject({ memory: 'cgroup', processes: 'cgroup', disk: 'filesystem' })
      expect(limitOf(pid, 'memory', ['memory.limit_in_bytes', 'memory.max'])).toBe(String(256 * MIB))
      expect(limitOf(pid, 'pids', ['pids.max'])).toBe('64')
      expect(await box.exec(['tail', '/dev/zero'])).not.toMatchObject({ code: 0 })
      const { observed } = await home.client().sandboxes.stats(box.id)
      expect(observed.out_of_memory_kills).toBeGreaterThan(0)
      expect((await box.exec(['sh', '-c', 'head -c 100000000 /dev/zero > full'])).stderr).toContain(
        'No space',
      )
      await box.exec(['rm', 'full'])
    })

    it('can be stopped and resumed, snapshotted and restored, and forked', async () => {
      await inside('box', 'echo one > a')
      expect(await home.client().sandboxes.pause(box.id)).toMatchObject({ state: 'paused' })
      await runSuccessfully('sandbox', 'resume', 'box')
      await home.json<SnapshotBody>(['sandbox', 'snapshot', 'box', '--name', 'before'])
      await inside('box', 'echo two > a')
      await runSuccessfully('sandbox', 'stop', 'box')
      expect(await home.findLeftovers(box.id)).toEqual([])
      await runSuccessfully('sandbox', 'resume', 'box')
      expect(await inside('box', 'cat a')).toBe('two\n')
      await runSuccessfully('sandbox', 'restore', 'box', 'before')
      const fork = await home.json<SandboxBody>(['sandbox', 'fork', 'box', '--name', 'child'])
      await home.adopt(fork.id)
      expect(await inside('child', 'cat a; echo three > a')).toBe('one\n')
      expect(await inside('box', 'cat a')).toBe('one\n')
    })

    it('leaves nothing when it is deleted', async () => {
      await runSuccessfully('sandbox', 'delete', '--yes', 'box')
      expect(await home.findLeftovers(box.id)).toEqual([])
    })
  })

  // Podman's monitor of each connection would stay for five minutes. Disposing of the home fails if anything is left.
  describe('over a relay', () => {
    let instance: ContractInstance
    beforeAll(async () => {
      const home = await open('relay')
      instance = { home, box: await home.create(), client: home.client() }
    })
    afterAll(() => instance?.home[Symbol.asyncDispose]())

    it('receives all bytes, including the keys that detach from a container', async () => {
      const bytes = Buffer.from('\u0010\u0011'.repeat(100_000))
      const args = ['sandbox', 'exec', instance.box.id, '--', 'sha256sum']
      const { stdout } = await instance.home.run(args, { input: bytes })
      expect(stdout).toContain(createHash('sha256').update(bytes).digest('hex'))
    })

    // Opens many connections at once, because Podman's monitor reads nothing while it writes.
    networkContract(() => instance)

    it('leaves nothing when it is deleted either', async () => {
      await instance.box.delete()
      expect(await instance.home.findLeftovers(instance.box.id)).toEqual([])
    })
  })
})

/** Reads the limit in either version of control groups. */
function limitOf(pid: number, controller: string, files: readonly string[]): string {
  const groups = readFileSync(`/proc/${pid}/cgroup`, 'utf8')
    .split('\n')
    .map((line) => line.split(':'))
  const first = groups.find(([, names]) => names?.split(',').includes(controller))
  const folder = first
    ? join('/sys/fs/cgroup', first[1]!, first[2]!)
    : join('/sys/fs/cgroup', groups.find(([, names]) => names === '')![2]!)
  for (const file of files)
    try {
      return readFileSync(join(folder, file), 'utf8').trim()
    } catch {}
  throw new Error(`no ${files.join(' or ')} in ${folder}`)
}
