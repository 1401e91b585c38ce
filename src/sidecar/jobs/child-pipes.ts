/** The pipes of a child's input and outputs: real pipes if there are any, otherwise Node's own. */
import type { ChildProcess } from 'node:child_process'
import { closeSync } from 'node:fs'
import { Socket } from 'node:net'
import type { Readable, Writable } from 'node:stream'
import type { Stdio } from './leaks.ts'
import type { Pipe, PipePool } from './pipes.ts'

export interface ChildStreams {
  readonly stdin: Writable | undefined
  readonly stdout: Readable
  readonly stderr: Readable
}

export class ChildPipes {
  readonly #stdin: Pipe | undefined
  readonly #stdout: Pipe | undefined
  readonly #stderr: Pipe | undefined
  readonly stdio: Stdio

  constructor(pool: PipePool, withInput: boolean) {
    this.#stdin = withInput ? pool.forInput() : undefined
    this.#stdout = pool.forOutput()
    this.#stderr = pool.forOutput()
    const input = withInput ? (this.#stdin?.theirs ?? 'pipe') : 'ignore'
    this.stdio = [input, this.#stdout?.theirs ?? 'pipe', this.#stderr?.theirs ?? 'pipe']
  }

  /**
   * Must be called in the same turn as the spawn. The child then has its ends, and this closes the sidecar's copies of
   * them.
   */
  attach(child: ChildProcess): ChildStreams {
    for (const pipe of this.#all()) closeSync(pipe.theirs)
    return {
      stdin: this.#stdin ? writerOf(this.#stdin) : (child.stdin ?? undefined),
      stdout: this.#stdout ? readerOf(this.#stdout) : child.stdout!,
      stderr: this.#stderr ? readerOf(this.#stderr) : child.stderr!,
    }
  }

  /** Closes the pipes when no program was started. */
  abandon(): void {
    for (const pipe of this.#all()) {
      closeSync(pipe.theirs)
      closeSync(pipe.ours)
      pipe.release(true)
    }
  }

  #all(): readonly Pipe[] {
    return [this.#stdin, this.#stdout, this.#stderr].filter((pipe) => pipe !== undefined)
  }
}

function readerOf(pipe: Pipe): Readable {
  const reader = new Socket({ fd: pipe.ours, readable: true, writable: false })
  let ended = false
  reader.once('end', () => {
    ended = true
  })
  reader.once('close', () => pipe.release(ended))
  return reader
}

/** The pool never reuses this pipe, because a process that the program left behind may still read it. */
function writerOf(pipe: Pipe): Writable {
  const writer = new Socket({ fd: pipe.ours, readable: false, writable: true })
  writer.once('close', () => pipe.release(false))
  return writer
}
