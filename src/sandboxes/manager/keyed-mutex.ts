/** Runs the operations on a whole sandbox one after the other, in the order of the calls. */
import type { SandboxId } from '../../lib/ids.ts'

export class KeyedMutex {
  readonly #last = new Map<SandboxId, Promise<unknown>>()

  /** Runs the work after all earlier work on the same sandbox, whether that succeeded or not. */
  take<T>(id: SandboxId, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(id) ?? Promise.resolve()
    const mine = before.then(work, work)
    const over = mine.then(
      () => {},
      () => {},
    )
    this.#last.set(id, over)
    void over.then(() => {
      if (this.#last.get(id) === over) this.#last.delete(id)
    })
    return mine
  }
}
