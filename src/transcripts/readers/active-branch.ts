/** Finds the active branch in a tree of messages that is in the order of a file: the branch with the last message. */
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

  /** True when there are more lines than this class tracks. All lines over the limit count as active. */
  get isCut(): boolean {
    return this.#isCut
  }

  /**
   * Adds a line. Without `parent` it is the first of all. A line with a missing parent, whose line is damaged, follows
   * the line before it, so that no earlier message is lost. Of two lines with one name, the first one counts.
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
    // The number of a parent is smaller than those of its children, so that there is no cycle.
    const follows = parent === undefined ? undefined : (this.#numbers.get(parent) ?? before)
    this.#numbers.set(name, number)
    this.#branches.push({ parent: follows, group: isMessage ? group : undefined })
    if (isMessage) this.#leaf = number
  }

  /** Must be called after the last line was added. */
  close(): void {
    for (let at = this.#leaf; at !== undefined; at = this.#branches[at]!.parent) {
      this.#active.add(at)
      const { group } = this.#branches[at]!
      if (group !== undefined) this.#groups.add(group)
    }
  }

  /**
   * Returns whether a line is on the branch, or is one of several lines of an answer on the branch. Returns true once
   * for each line.
   */
  includesOnce(name: string, group: string | undefined): boolean {
    const number = this.#numbers.get(name)
    if (number === undefined) return this.#isCut
    if (this.#taken.has(number)) return false
    this.#taken.add(number)
    return this.#active.has(number) || (group !== undefined && this.#groups.has(group))
  }
}
