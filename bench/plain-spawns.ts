/** The reference for the exec bench: the same program started from a small Node process, with pipes for its output. */
import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'

/**
 * Uses a separate process, because starting a program copies the page tables of the parent, and the bench process is
 * large.
 */
export class PlainSpawns implements AsyncDisposable {
  readonly #child: ChildProcess = fork(import.meta.filename)

  /** Starts the program and waits for its exit and the end of its output. */
  async run(): Promise<void> {
    const answered = once(this.#child, 'message')
    this.#child.send('run')
    await answered
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const exited = once(this.#child, 'exit')
    this.#child.disconnect()
    await exited
  }
}

if (process.send !== undefined && process.argv[1] === import.meta.filename) {
  process.on('message', () => {
    const program = spawn('/bin/true', { stdio: ['ignore', 'pipe', 'pipe'] })
    program.stdout.resume()
    program.stderr.resume()
    program.once('close', () => process.send!('done'))
  })
}
