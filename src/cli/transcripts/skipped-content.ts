/** What was not read of transcripts, or not all of it: a line for each reason. */
import type { SkippedTranscript } from '../../transcripts/find-transcripts.ts'
import { printable } from '../output.ts'

/** Reasons that get a line, and files that are kept: an inside may have any number of them. */
const LINES = 5
const KEPT = 1000

export class SkippedContent {
  /** By the reason: the first file, and how many. */
  readonly #reasons = new Map<string, { readonly path: string; count: number }>()
  readonly #known = new Set<string>()

  /** Once for each file and reason, as often as it is come upon. */
  readonly problem = (path: string, problem: string): void => {
    if (!this.#isNew(path, problem)) return
    const reason = this.#reasons.get(problem)
    if (reason !== undefined) reason.count++
    else if (this.#reasons.size < KEPT) this.#reasons.set(problem, { path, count: 1 })
  }

  readonly passedOver = ({ path, reason }: SkippedTranscript): void =>
    this.problem(path, `was skipped: it ${reason}`)

  #isNew(path: string, problem: string): boolean {
    const key = `${path}\0${problem}`
    if (this.#known.has(key)) return false
    if (this.#known.size < KEPT) this.#known.add(key)
    return true
  }

  /** For standard error. */
  lines(): string {
    const lines = [...this.#reasons].map(([reason, { path, count }]) => {
      const more = count === 1 ? '' : ` (and ${(count - 1).toLocaleString('en')} more)`
      return `craik: ${printable(path)} ${printable(reason)}${more}\n`
    })
    const left = lines.length - LINES
    return [
      ...lines.slice(0, LINES),
      ...(left > 0 ? [`craik: and ${left.toLocaleString('en')} more like this\n`] : []),
    ].join('')
  }
}
