/**
 * A home on a full disk: nothing runs in a sandbox without a receipt, and everything works again when there is space.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, mkdirSync, openSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { ERRORS } from '../../src/errors.ts'
import { builtMain, type CommandResult, NODE, run, TestHome } from '../craik.ts'
import { canBe, ROOT_IS_NEEDED } from '../sandbox-home.ts'
import { requireWholeLog } from './supervisor-kill-receipts.ts'

/** Enough space for the files that a sandbox runs with, and little more. */
const DISK = 'size=400m,mode=0700'

it.runIf(canBe('root'))(
  `a full disk stops commands, new sandboxes and removals before they begin${ROOT_IS_NEEDED ?? ''}`,
  { timeout: 600_000 },
  async () => {
    await using home = await SmallDisk.mount()
    expect(await home.run(create('one'))).toMatchObject({ code: 0 })
    expect(await home.run(touch('before'))).toMatchObject({ code: 0, stderr: '' })
    // This job exits when its end cannot be written.
    expect(await home.run(['sandbox', 'exec', 'one', '--detach', '--', 'sleep', '1'])).toMatchObject({
      code: 0,
    })
    home.fill()
    for (const refused of [
      await home.run(touch('refused')),
      await home.run(create('two')),
      await home.run(['sandbox', 'delete', 'one']),
    ]) {
      expect(refused.stderr).toMatch(/^craik: [^\n]+\n {2}[^\n]+\n$/)
      expect(refused.code).toBe(ERRORS.disk_full.exit)
    }
    await sleep(2_000)
    home.empty()
    const listed = JSON.parse((await home.run(['sandbox', 'list', '--format', 'json'])).stdout)
    expect(listed).toMatchObject([{ name: 'one', state: 'running' }])
    expect(await home.run(touch('works'))).toMatchObject({ code: 0, stderr: '' })
    const { stdout } = await home.run(['sandbox', 'exec', 'one', '--', 'ls', '/tmp'])
    expect(stdout).toBe('before\nworks\n')
    expect(await home.run(['sandbox', 'delete', 'one'])).toMatchObject({ code: 0 })
    await requireWholeLog(home)
  },
)

/** Uses less disk than the default. All disks together may grow only to a multiple of the available space. */
function create(name: string): string[] {
  return ['sandbox', 'create', '--name', name, '--disk', '1g']
}

/** Writes to the sandbox's own memory, which has space. */
function touch(name: string): string[] {
  return ['sandbox', 'exec', 'one', '--no-stdin', '--', 'touch', `/tmp/${name}`]
}

/** A home in its own mount namespace, which disappears with the process that holds it. */
class SmallDisk implements AsyncDisposable {
  readonly #test = new TestHome()
  readonly #disk = this.#test.path('disk')
  readonly #lockOwner: ChildProcess

  private constructor() {
    mkdirSync(this.#disk)
    const script = `mount -t tmpfs -o ${DISK} craik-test "$0" && echo ready && exec sleep 100000`
    const args = ['--mount', '--propagation', 'private', 'sh', '-c', script, this.#disk]
    this.#lockOwner = spawn('unshare', args, { stdio: ['ignore', 'pipe', 'inherit'] })
  }

  static async mount(): Promise<SmallDisk> {
    const disk = new SmallDisk()
    await once(disk.#lockOwner.stdout!, 'data')
    return disk
  }

  run(args: readonly string[]): Promise<CommandResult> {
    const enter = [`--mount=/proc/${this.#lockOwner.pid}/ns/mnt`, '--']
    return run('nsenter', [...enter, NODE, builtMain(), ...args], {
      cwd: this.#test.folder,
      env: { PATH: process.env.PATH!, HOME: this.#test.folder, CRAIK_HOME: join(this.#disk, 'home') },
    })
  }

  get #ballast(): string {
    return join(`/proc/${this.#lockOwner.pid}/root`, this.#disk, 'ballast')
  }

  /** Fills the disk to the last byte. */
  fill(): void {
    const file = openSync(this.#ballast, 'w')
    for (let bytes = 1 << 20; bytes >= 1; ) {
      try {
        writeSync(file, Buffer.alloc(bytes))
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
        bytes = Math.floor(bytes / 16)
      }
    }
    closeSync(file)
  }

  empty(): void {
    rmSync(this.#ballast, { force: true })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.empty()
    await this.run(['sandbox', 'delete', '--all', '--yes'])
    await this.run(['supervisor', 'stop'])
    this.#lockOwner.kill('SIGKILL')
    await once(this.#lockOwner, 'exit')
    this.#test[Symbol.dispose]()
  }
}
