/**
 * A supervisor that owns the home and does not answer. Commands wait for it as long as it can recover, and then name it
 * in an error.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { homeAt } from '../../src/store/home.ts'
import { connectSupervisor } from '../../src/supervisor/connect-or-start.ts'
import { ensureRunFolder, runFolder } from '../../src/supervisor/run-folder.ts'
import { builtMain, NODE, ROOT, TestHome } from '../craik.ts'

/** Several times the longest wait of a test. */
const LIMIT_MS = 300_000

/** A home and the processes that hold its lock. */
class Scene implements AsyncDisposable {
  readonly #test = new TestHome()
  readonly #started: ChildProcess[] = []
  readonly deps = {
    home: homeAt(this.#test.home),
    mainFile: builtMain(),
    environment: { PATH: process.env.PATH, HOME: this.#test.folder },
  }

  /** Starts a process that takes the lock and records its pid, as a supervisor does first, and then does nothing. */
  async startStuckOwner(): Promise<ChildProcess> {
    ensureRunFolder(this.deps.home)
    const source = (name: string) => JSON.stringify(join(ROOT, 'src', name))
    const script = `
    const { takeLock } = await import(${source('supervisor/lock.ts')})
    const { recordLockOwner } = await import(${source('supervisor/lock-owner.ts')})
    const { runFolder } = await import(${source('supervisor/run-folder.ts')})
    const { homeAt } = await import(${source('store/home.ts')})
    const folder = runFolder(homeAt(${JSON.stringify(this.#test.home)}))
    globalThis.lock = takeLock(folder.lock)
    recordLockOwner(folder, { version: '0.1.0', build: 'b', built_at_ms: 0 }, Date.now())
    console.log(globalThis.lock === undefined ? 'not held' : 'held')
    setInterval(() => {}, 1e6)`
    const child = spawn(NODE, ['--input-type=module', '-e', script], { stdio: ['ignore', 'pipe', 'inherit'] })
    this.#started.push(child)
    const [output] = (await once(child.stdout, 'data')) as [Buffer]
    expect(output.toString()).toBe('held\n')
    return child
  }

  log(): string {
    const path = runFolder(this.deps.home).log
    return existsSync(path) ? readFileSync(path, 'utf8') : ''
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const child of this.#started) await end(child)
    await this.#test.run(['supervisor', 'stop'])
    this.#test[Symbol.dispose]()
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  child.kill('SIGKILL')
  await once(child, 'exit')
}

// Each test waits a long time in its own home, so they run concurrently.
describe.concurrent('a supervisor that holds the home and does not listen', () => {
  it('is replaced for a command whose own supervisor stopped waiting for it', {
    timeout: LIMIT_MS,
  }, async () => {
    await using scene = new Scene()
    const holder = await scene.startStuckOwner()
    const connecting = connectSupervisor(scene.deps)
    connecting.catch(() => {})
    while (!scene.log().includes('holds the lock and has not answered')) await sleep(50)
    await end(holder)
    using client = await connecting
    expect(await client.sandboxes.list()).toEqual([])
  })

  it('is named with the command that kills it, and that command works', { timeout: LIMIT_MS }, async () => {
    await using scene = new Scene()
    const holder = await scene.startStuckOwner()
    await expect(connectSupervisor(scene.deps)).rejects.toMatchObject({
      code: 'supervisor_unreachable',
      message: expect.stringMatching(
        new RegExp(`^the supervisor \\(pid ${holder.pid}\\) was not ready after`),
      ),
      hint: `end it (sandboxes keep running):  kill -9 ${holder.pid}`,
    })
    await end(holder)
    using client = await connectSupervisor(scene.deps)
    expect(await client.sandboxes.list()).toEqual([])
  })
})

describe.concurrent('a supervisor that is stopped while it serves', () => {
  it('is awaited when it continues, and named when it does not', { timeout: LIMIT_MS }, async () => {
    await using scene = new Scene()
    using first = await connectSupervisor(scene.deps)
    const { pid } = await first.supervisor.version()
    process.kill(pid, 'SIGSTOP')
    try {
      const waiting = connectSupervisor(scene.deps)
      waiting.catch(() => {})
      // Longer than a single answer may take.
      await sleep(7_000)
      process.kill(pid, 'SIGCONT')
      using second = await waiting
      expect((await second.supervisor.version()).pid).toBe(pid)

      process.kill(pid, 'SIGSTOP')
      await expect(connectSupervisor(scene.deps)).rejects.toMatchObject({
        code: 'supervisor_unreachable',
        message: expect.stringContaining('accepts connections but did not answer'),
        hint: `end it (sandboxes keep running):  kill -9 ${pid}`,
      })
    } finally {
      process.kill(pid, 'SIGCONT')
    }
    using third = await connectSupervisor(scene.deps)
    expect((await third.supervisor.version()).pid).toBe(pid)
  })
})
