/** Of a tree of messages in the order of a file, the branch that the last message is on. */
import { TRANSCRIPT_LIMITS } from '../transcript-limits.ts'

interface BranchPoint {
  readonly parent: number | undefined
  readonly group: string | undefined
}

export class ActiveBranch {
  readonly #numbers = new Map<string, number>()
  readonly #branches: BranchPoint[] = []
  #leaf: number | undefined
  #isCut = false
  readonly #active = new Set<number>()
  readonly #taken = new Set<number>()
  readonly #groups = new Set<string>()

  /** There are more of them than can be kept apart: those beyond all count. */
  get isCut(): boolean {
    return this.#isCut
  }

  /**
   * `parent` undefined: it is the first of all. One whose parent is not there, because its line is damaged, follows on the
   * line before it, so that nothing said earlier is lost. Of two with one name the first one counts.
   */
  add(
    name: string,
    parent: string | undefined,
    { isMessage, group }: { readonly isMessage: boolean; readonly group: string | undefined },
  ): void {
    if (this.#numbers.has(name)) return
    if (this.#branches.length >= TRANSCRIPT_LIMITS.lines) {
      this.#isCut = true
      return
    }
    const number = this.#branches.length
    const before = number === 0 ? undefined : number - 1
    // A number is smaller than those that follow on it, so that there is no circle.
    const follows = parent === undefined ? undefined : (this.#numbers.get(parent) ?? before)
    this.#numbers.set(name, number)
    this.#branches.push({ parent: follows, group: isMessage ? group : undefined })
    if (isMessage) this.#leaf = number
  }

  /** When all are there. */
  close(): void {
    for (let at = this.#leaf; at !== undefined; at = this.#branches[at]!.parent) {
      this.#active.add(at)
      const { group } = this.#branches[at]!
      if (group !== undefined) this.#groups.add(group)
    }
  }

  /** Whether it is on the branch, or one of several lines of an answer that is. Each is taken once. */
  takes(name: string, group: string | undefined): boolean {
    const number = this.#numbers.get(name)
    if (number === undefined) return this.#isCut
    if (this.#taken.has(number)) return false
    this.#taken.add(number)
    return this.#active.has(number) || (group !== undefined && this.#groups.has(group))
  }
}
