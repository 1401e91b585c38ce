/** Reports transcripts that were not read, or not completely, with a line for each reason. */
import type { SkippedTranscript } from '../../transcripts/find-transcripts.ts'
import { printable } from '../output.ts'

/**
 * The reasons that get a line, and the files and reasons that stay in memory. A sandbox can have any number of them.
 */
const LINES = 5
const KEPT = 1000

export class SkippedContent {
  /** The first file and the number of files, by reason. */
  readonly #reasons = new Map<string, { readonly path: string; count: number }>()
  readonly #known = new Set<string>()

  /** Counts each file once for each reason, however often it appears. */
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

  /** Returns the lines for stderr. */
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
