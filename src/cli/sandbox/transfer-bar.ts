/** Shows a bar on stderr when a copy takes longer than a second, and removes it at the end. */
import type { CliContext } from '../context.ts'
import { redraw } from '../progress.ts'
import { formatBytes } from './amounts.ts'

const PATIENCE_MS = 1_000
const REDRAW_MS = 250
const WIDTH = 24

export class TransferBar implements Disposable {
  readonly #context: CliContext
  readonly #label: string
  /** 0 if the total is unknown. */
  readonly #ofBytes: number
  readonly #started = performance.now()
  #drawn = 0
  #timer: NodeJS.Timeout | undefined

  constructor(context: CliContext, label: string, ofBytes: number) {
    this.#context = context
    this.#label = label
    this.#ofBytes = ofBytes
  }

  set(bytes: number): void {
    const now = performance.now()
    if (!this.#context.stderr.isTTY || now - this.#started < PATIENCE_MS || now - this.#drawn < REDRAW_MS)
      return
    this.#drawn = now
    redraw(this.#context.stderr, `  ${this.#label} ${barOf(bytes, this.#ofBytes)}${formatBytes(bytes)}`)
  }

  /** Reads the progress at intervals. */
  watch(bytes: () => number): void {
    this.#timer = setInterval(() => this.set(bytes()), REDRAW_MS)
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
    if (this.#drawn > 0) this.#context.stderr.write('\r\u001b[K')
  }
}

export function barOf(bytes: number, ofBytes: number): string {
  if (ofBytes <= 0) return ''
  const part = Math.min(1, bytes / ofBytes)
  const full = Math.floor(part * WIDTH)
  return `▕${'█'.repeat(full)}${' '.repeat(WIDTH - full)}▏ ${String(Math.floor(part * 100)).padStart(3)}%  `
}
