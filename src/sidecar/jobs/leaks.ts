/**
 * Descriptors that a child would inherit because they were opened without close-on-exec: the masters of terminals. In
 * every child, these numbers lead to /dev/null.
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

  /** Returns the same list, extended so that the leaking descriptors are covered. */
  cover(stdio: Stdio): StdioOptions {
    if (this.#fds.size === 0) return [...stdio]
    this.#nothing ??= openSync('/dev/null', 'r+')
    const all: (Stdio[number] | null)[] = [...stdio]
    // With `ignore`, Node leaves a descriptor above 2 as it is. Descriptors that do not leak are close-on-exec.
    while (all.length <= Math.max(...this.#fds)) all.push('ignore')
    for (const fd of this.#fds) all[fd] = this.#nothing
    return all
  }

  close(): void {
    if (this.#nothing !== undefined) closeSync(this.#nothing)
    this.#nothing = undefined
  }
}
