/**
 * Descriptors that a child would inherit because what opened them did not mark them otherwise: the masters of
 * terminals. Every child is started with these numbers leading to nothing.
 */
import type { StdioOptions } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'

export type Stdio = readonly [
  'pipe' | 'ignore' | number,
  'pipe' | 'ignore' | number,
  'pipe' | 'ignore' | number,
]

export class Leaks {
  readonly #fds = new Set<number>()
  #nothing: number | undefined

  add(fd: number): void {
    this.#fds.add(fd)
  }

  delete(fd: number): void {
    this.#fds.delete(fd)
  }

  /** The same, and the rest covered. */
  cover(stdio: Stdio): StdioOptions {
    if (this.#fds.size === 0) return [...stdio]
    this.#nothing ??= openSync('/dev/null', 'r+')
    const all: (Stdio[number] | null)[] = [...stdio]
    // Node passes on nothing where there is nothing: a hole leaves the number as it is, and those are closed anyway.
    while (all.length <= Math.max(...this.#fds)) all.push('ignore')
    for (const fd of this.#fds) all[fd] = this.#nothing
    return all
  }

  close(): void {
    if (this.#nothing !== undefined) closeSync(this.#nothing)
    this.#nothing = undefined
  }
}
