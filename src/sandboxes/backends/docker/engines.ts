/** The engine of this machine, looked for when it is needed and again after it did not answer. */
import { CraikError } from '../../../errors.ts'
import { Semaphore } from '../../../lib/semaphore.ts'
import { isSilent } from './engine/ask.ts'
import { type Engine, openEngine } from './engine/engine.ts'

/** An engine that removes fifty containers at once has no answer for anybody within its deadline. */
const REMOVALS_AT_ONCE = 4

export class Engines {
  /** Whatever removes containers passes it. */
  readonly removals = new Semaphore(REMOVALS_AT_ONCE)
  readonly #environment: NodeJS.ProcessEnv
  #open: Promise<Engine> | undefined

  constructor(environment: NodeJS.ProcessEnv) {
    this.#environment = environment
  }

  /** The one that holds a sandbox, or whichever there is. */
  async reach(id?: string): Promise<Engine> {
    this.#open ??= openEngine(this.#environment).catch((error) => {
      this.#open = undefined
      throw error
    })
    const engine = await this.#open
    if (id === undefined || engine.id === id) return engine
    // Perhaps it has been exchanged since we asked.
    this.#open = undefined
    throw new CraikError('unavailable', 'the sandbox belongs to a different engine than the one in use', {
      hint: 'select its engine:  export CRAIK_ENGINE=unix:///PATH/docker.sock',
      details: { engine: 'silent' },
    })
  }

  /** Does something with it; one that did not answer is looked for anew the next time. */
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
