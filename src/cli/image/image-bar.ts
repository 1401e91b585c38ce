/**
 * Shows a bar on stderr while Craik builds an image or installs a harness. It appears after a second, and only on a
 * terminal.
 */
import type { ImageProgress } from '../../sandboxes/backends/docker/image/image-progress.ts'
import type { CliContext } from '../context.ts'
import { redraw } from '../progress.ts'

const PATIENCE_MS = 1_000
const REDRAW_MS = 250
const WIDTH = 20

export class ImageBar implements Disposable {
  readonly #context: CliContext
  readonly #started = performance.now()
  readonly #timer: NodeJS.Timeout | undefined
  readonly #label: string
  #at: ImageProgress = { part: 0, doing: '' }
  #isDrawn = false

  /** `label` names what Craik builds or installs. */
  constructor(context: CliContext, label = 'image') {
    this.#context = context
    this.#label = label
    // The elapsed time changes even while no progress is reported.
    if (context.stderr.isTTY) this.#timer = setInterval(() => this.#draw(), REDRAW_MS)
  }

  readonly at = (progress: ImageProgress): void => {
    this.#at = progress
  };

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
    if (this.#isDrawn) this.#context.stderr.write('\r\u001b[K')
    this.#isDrawn = false
  }

  #draw(): void {
    const elapsedMs = performance.now() - this.#started
    if (elapsedMs < PATIENCE_MS) return
    this.#isDrawn = true
    redraw(this.#context.stderr, imageLine(this.#at, Math.floor(elapsedMs / 1000), this.#label))
  }
}

export function imageLine({ part, doing }: ImageProgress, seconds: number, label = 'image'): string {
  const full = Math.floor(part * WIDTH)
  const bar = `▕${'█'.repeat(full)}${' '.repeat(WIDTH - full)}▏`
  return `  ${label}  ${bar} ${String(Math.floor(part * 100)).padStart(3)}%  ${doing} · ${seconds} s`
}
