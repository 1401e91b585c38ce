/** Connects the user's terminal to a program in a sandbox in raw mode, and restores it in any case. */
import { spawnSync } from 'node:child_process'
import { CraikError } from '../../errors.ts'
import { findSystemProgram } from '../../lib/host-programs.ts'
import { SYSTEM_PATH } from '../../sandboxes/backends/process/required-programs.ts'
import type { CliContext } from '../context.ts'

/**
 * Resets what a program may have left on: the alternate screen, mouse reports, bracketed paste, a hidden cursor,
 * colors.
 */
const RESET_MODES =
  '\u001b[?1049l\u001b[?1000l\u001b[?1002l\u001b[?1003l\u001b[?1006l\u001b[?2004l\u001b[?25h\u001b[0m'

export interface TerminalSize {
  readonly cols: number
  readonly rows: number
}

export function requireTerminal({ stdin, stdout }: CliContext, instead: string): void {
  if (stdin.isTTY && stdout.isTTY) return
  throw new CraikError('usage', 'a shell needs a terminal', {
    hint: `run a single command:  ${instead}`,
  })
}

export class RawTerminal implements Disposable {
  readonly #context: CliContext
  readonly #giveBack = () => this[Symbol.dispose]()
  #listeners: (() => void)[] = []
  #raw = true

  constructor(context: CliContext) {
    this.#context = context
    // Also restores the terminal if other code ends the process.
    process.once('exit', this.#giveBack)
    context.stdin.setRawMode(true)
    // Node's raw mode still converts each line feed to two characters, which the terminal in the sandbox has done
    // already. Without `stty`, the conversion stays on.
    const stty = findSystemProgram('stty', SYSTEM_PATH)
    if (stty === undefined) return
    spawnSync(stty, ['-opost'], { stdio: ['inherit', 'ignore', 'ignore'], timeout: 2000, env: {} })
  }

  get size(): TerminalSize {
    return sizeOf(this.#context)
  }

  onResize(listener: (size: TerminalSize) => void): void {
    const notify = () => listener(sizeOf(this.#context))
    this.#context.stdout.on('resize', notify)
    this.#listeners.push(() => this.#context.stdout.off('resize', notify))
  }

  /**
   * For a program that continues after the user detaches: it does not restore the screen, and its cursor can be
   * anywhere in a line.
   */
  clear(): void {
    this.#context.stdout.write(`${RESET_MODES}\r\n`)
  }

  [Symbol.dispose](): void {
    if (!this.#raw) return
    this.#raw = false
    process.off('exit', this.#giveBack)
    for (const stop of this.#listeners) stop()
    this.#context.stdin.setRawMode(false)
    this.#context.stdin.pause()
  }
}

/** A terminal that does not report its size gets the size that programs expect in that case. */
function sizeOf({ stdout }: CliContext): TerminalSize {
  return { cols: clamp(stdout.columns ?? 80), rows: clamp(stdout.rows ?? 24) }
}

function clamp(length: number): number {
  return Math.min(Math.max(Math.trunc(length) || 1, 1), 1000)
}
