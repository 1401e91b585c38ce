/**
 * A manager that dies like a process: after that nothing that it does has an effect, and the next manager takes over.
 */
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type InProcessStore, inProcessStore } from '../../../test/in-process-store.ts'
import { systemClock } from '../../lib/clock.ts'
import type { Store } from '../../store/store.ts'
import type { SandboxBackend, SandboxInstance } from '../backend.ts'
import { createSandboxManager, type SupervisedSandboxes } from '../manager.ts'
import { caller } from './manager.fixture.ts'
import { type PlainBackend, plainBackend } from './plain-instance.fixture.ts'

/** Decides whether a manager can still act. */
class Life {
  dead = false
  /** The manager dies at the write after these. That write may still happen, but the manager gets no answer. */
  writesLeft = Number.POSITIVE_INFINITY
  isLastDone = false

  require(): void {
    if (this.dead) throw new Error('this manager is dead')
  }
}

export class CrashingManager implements AsyncDisposable {
  readonly store: InProcessStore = inProcessStore(systemClock)
  readonly folder = mkdtempSync(join(tmpdir(), 'craik-crashing-'))
  readonly backend: PlainBackend = plainBackend()
  readonly complaints: string[] = []
  #life = new Life()
  manager: SupervisedSandboxes = this.#make(this.#life)

  /** Crashes at once, or at one of the writes of `work`. Then another manager takes over. */
  async crash(during?: {
    readonly work: () => Promise<unknown>
    readonly afterWrites: number
    readonly isLastDone: boolean
  }): Promise<void> {
    if (during !== undefined) {
      this.#life.writesLeft = during.afterWrites
      this.#life.isLastDone = during.isLastDone
      await during.work().catch(() => {})
    }
    this.#life.dead = true
    await this.manager.close()
    this.#life = new Life()
    this.manager = this.#make(this.#life)
    await this.manager.recover()
  }

  folders(): string[] {
    const path = join(this.folder, 'sandboxes')
    return existsSync(path) ? readdirSync(path) : []
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { id } of await this.manager.list()) await this.manager.delete(caller(), id).catch(() => {})
    await this.manager.close()
    for (const pid of this.backend.pids.values()) {
      try {
        process.kill(pid, 'SIGKILL')
      } catch {}
    }
    rmSync(this.folder, { recursive: true, force: true })
  }

  #make(life: Life): SupervisedSandboxes {
    const { store } = this
    return createSandboxManager({
      store: mortalStore(store, life),
      log: store.log,
      clock: systemClock,
      home: { ...store.home, sandboxes: join(this.folder, 'sandboxes') },
      backends: { process: mortalBackend(this.backend, life) },
      logger: (level, message) => {
        if (level === 'error' && !life.dead) this.complaints.push(message)
      },
      recoveryPauseMs: 10,
    })
  }
}

function mortalStore(store: Store, life: Life): Store {
  return {
    ...store,
    async write(procedure, input) {
      life.require()
      if (life.writesLeft-- > 0) return store.write(procedure, input)
      if (life.isLastDone) await store.write(procedure, input).catch(() => {})
      life.dead = true
      throw new Error('this manager is dead')
    },
    async read(work) {
      life.require()
      return store.read(work)
    },
  }
}

function mortalBackend(backend: SandboxBackend, life: Life): SandboxBackend {
  const requireAlive =
    <A extends readonly unknown[], T>(work: (...args: A) => Promise<T>) =>
    async (...args: A): Promise<T> => {
      life.require()
      return work(...args)
    }
  const mortalInstance = (instance: SandboxInstance): SandboxInstance => ({
    ...instance,
    pause: requireAlive(async () => instance.pause?.()),
    unpause: requireAlive(async () => instance.unpause?.()),
    destroy: requireAlive(() => instance.destroy()),
  })
  return {
    ...backend,
    create: requireAlive(async (spec) => mortalInstance(await backend.create(spec))),
    recover: requireAlive(async (handle, spec) => {
      const instance = await backend.recover(handle, spec)
      return instance && mortalInstance(instance)
    }),
    sweep: requireAlive((spec, handle) => backend.sweep(spec, handle)),
  }
}
