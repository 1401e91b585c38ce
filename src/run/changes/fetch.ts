/** Contents of files out of a sandbox, many in one go: as long as each was said to be, in the order they were asked for. */
import { z } from 'zod'
import { CraikError } from '../../errors.ts'
import type { WorkspaceInside } from './inside.ts'
import { CHANGE_LIMITS } from './limits.ts'
import { SEND_PROGRAM } from './programs.ts'

const HEADER_BYTES = 200
const header = z.strictObject({
  i: z.int().nonnegative(),
  s: z.int().nonnegative().max(CHANGE_LIMITS.fileBytes).nullable(),
})

/** `take` gets each content, or undefined for what is no file (any more) or has become too large. */
export async function fetchContents(
  inside: WorkspaceInside,
  paths: readonly string[],
  take: (index: number, content: Buffer | undefined) => Promise<void>,
  until: AbortSignal,
): Promise<void> {
  if (paths.length === 0) return
  const arriving = new Arriving(paths.length, take)
  await inside.runNode(
    {
      doing: 'reading the changed files in the sandbox',
      script: SEND_PROGRAM,
      input: JSON.stringify(paths),
      timeoutMs: CHANGE_LIMITS.fetchMs,
      onOutput: (chunk) => arriving.push(chunk),
    },
    until,
  )
  arriving.end()
}

/** Holds one file's content at most, besides one chunk. */
class Arriving {
  readonly #count: number
  readonly #take: (index: number, content: Buffer | undefined) => Promise<void>
  #next = 0
  #total = 0
  #header: Buffer = Buffer.alloc(0)
  /** Of the file that is arriving. */
  #content: { readonly parts: Buffer[]; missing: number } | undefined

  constructor(count: number, take: (index: number, content: Buffer | undefined) => Promise<void>) {
    this.#count = count
    this.#take = take
  }

  async push(chunk: Buffer): Promise<void> {
    for (let rest = chunk; rest.length > 0; )
      rest = this.#content === undefined ? await this.#readHeader(rest) : await this.#readContent(rest)
  }

  end(): void {
    if (this.#next !== this.#count || this.#content !== undefined || this.#header.length > 0)
      throw broken('it is truncated')
  }

  async #readHeader(chunk: Buffer): Promise<Buffer> {
    const end = chunk.indexOf(10)
    const part = end === -1 ? chunk : chunk.subarray(0, end)
    if (this.#header.length + part.length > HEADER_BYTES) throw broken('a line is too long')
    this.#header = Buffer.concat([this.#header, part])
    if (end === -1) return Buffer.alloc(0)
    const said = header.safeParse(parsedJson(this.#header.toString()))
    this.#header = Buffer.alloc(0)
    if (!said.success || said.data.i !== this.#next || this.#next >= this.#count)
      throw broken('it does not match the request')
    const { s } = said.data
    this.#total += s ?? 0
    if (this.#total > CHANGE_LIMITS.keptBytes) throw tooMuch()
    if (s === null || s === 0) await this.#finish(s === null ? undefined : Buffer.alloc(0))
    else this.#content = { parts: [], missing: s }
    return chunk.subarray(end + 1)
  }

  async #readContent(chunk: Buffer): Promise<Buffer> {
    const arriving = this.#content!
    const part = chunk.subarray(0, arriving.missing)
    // A copy: the chunk is the reader's, and may be a small part of a large one.
    arriving.parts.push(Buffer.from(part))
    arriving.missing -= part.length
    if (arriving.missing === 0) {
      this.#content = undefined
      await this.#finish(Buffer.concat(arriving.parts))
    }
    return chunk.subarray(part.length)
  }

  async #finish(content: Buffer | undefined): Promise<void> {
    await this.#take(this.#next++, content)
  }
}

function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function broken(why: string): CraikError {
  return new CraikError('boundary_failed', `the sandbox sent invalid changed files: ${why}`, {
    hint: 'stop the processes in the sandbox, then try again',
  })
}

function tooMuch(): CraikError {
  return new CraikError('too_large', 'the changed files exceed the limit for one run', {
    hint: 'copy files out yourself:  craik sandbox cp ID:PATH .',
  })
}
