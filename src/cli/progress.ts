/** Shows a line on stderr when something takes longer than a second, and removes it at the end. */
import { setImmediate } from 'node:timers/promises'
import type { CliContext } from './context.ts'

const PATIENCE_MS = 1_000
const REDRAW_MS = 250

export class Progress implements Disposable {
  readonly #context: CliContext
  readonly #label: string
  readonly #unit: string
  readonly #started = performance.now()
  #drawn = 0
  #count = 0

  /** `unit` follows the count directly. */
  constructor(context: CliContext, label: string, unit = '') {
    this.#context = context
    this.#label = label
    this.#unit = unit
  }

  set(count: number): void {
    this.#count = count
  }

  /** Lets Node handle Ctrl-C, and redraws the line at intervals. */
  async tick(count: number): Promise<void> {
    this.#count = count
    await setImmediate()
    this.#context.signal.throwIfAborted()
    this.#draw()
  }

  async *through<T>(source: AsyncIterable<T>): AsyncGenerator<T> {
    for await (const chunk of source) {
      this.#context.signal.throwIfAborted()
      this.#draw()
      yield chunk
    }
  }

  [Symbol.dispose](): void {
    if (this.#drawn > 0) this.#context.stderr.write('\r\u001b[K')
  }

  #draw(): void {
    const now = performance.now()
    if (!this.#context.stderr.isTTY || now - this.#started < PATIENCE_MS || now - this.#drawn < REDRAW_MS)
      return
    this.#drawn = now
    redraw(this.#context.stderr, `  ${this.#label} ${this.#count.toLocaleString('en')}${this.#unit} …`)
  }
}

/**
 * Replaces the drawn line. Cuts the new line at the width of the terminal, because a line that wraps could not be
 * removed later.
 */
export function redraw(terminal: NodeJS.WriteStream, line: string): void {
  terminal.write(`\r\u001b[K${truncateLine(line, terminal.columns)}`)
}

export function truncateLine(line: string, columns = Number.POSITIVE_INFINITY): string {
  return line.length < columns ? line : line.slice(0, Math.max(0, columns - 1))
}

/** Counts the seconds of a wait of unknown length. */
export function countingSeconds(progress: Progress): Disposable {
  const startedMs = performance.now()
  const seconds = () => Math.floor((performance.now() - startedMs) / 1000)
  const timer = setInterval(() => void progress.tick(seconds()).catch(() => {}), REDRAW_MS)
  return { [Symbol.dispose]: () => clearInterval(timer) }
}
