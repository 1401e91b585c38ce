/** Finds this machine's engine when it is needed, and again after it did not answer. */
import { CraikError } from '../../../errors.ts'
import { Semaphore } from '../../../lib/semaphore.ts'
import { type Engine, openEngine } from './engine/engine.ts'
import { isSilent } from './engine/engine-request.ts'

/** An engine that removes fifty containers at the same time answers no other request within its deadline. */
const REMOVALS_AT_ONCE = 4

export class Engines {
  /** All removals of containers use this semaphore. */
  readonly removals = new Semaphore(REMOVALS_AT_ONCE)
  readonly #environment: NodeJS.ProcessEnv
  #open: Promise<Engine> | undefined

  constructor(environment: NodeJS.ProcessEnv) {
    this.#environment = environment
  }

  /** Returns the engine with this id, which runs a sandbox, or any engine without an id. */
  async reach(id?: string): Promise<Engine> {
    this.#open ??= openEngine(this.#environment).catch((error) => {
      this.#open = undefined
      throw error
    })
    const engine = await this.#open
    if (id === undefined || engine.id === id) return engine
    // Another engine could have replaced it in the meantime.
    this.#open = undefined
    throw new CraikError('unavailable', 'the sandbox belongs to a different engine than the one in use', {
      hint: 'select its engine:  export CRAIK_ENGINE=unix:///PATH/docker.sock',
      details: { engine: 'silent' },
    })
  }

  /** Calls `use` with the engine. After an engine did not answer, the next call looks for one again. */
  async with<T>(id: string | undefined, use: (engine: Engine) => Promise<T>): Promise<T> {
    const engine = await this.reach(id)
    try {
      return await use(engine)
    } catch (error) {
      if (isSilent(error)) this.#open = undefined
      throw error
    }
  }
}
