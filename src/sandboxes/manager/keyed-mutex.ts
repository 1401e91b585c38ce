/** What is done to a sandbox as a whole is done one after the other, in the order in which it was asked for. */
import type { SandboxId } from '../../lib/ids.ts'

export class KeyedMutex {
  readonly #last = new Map<SandboxId, Promise<unknown>>()

  /** Starts when everything before it about the same sandbox is over, however that ended. */
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
