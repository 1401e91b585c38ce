/**
 * Fetches file contents from a sandbox, many in one stream. Each must have the announced length and the requested
 * order.
 */
import { z } from 'zod'
import { CraikError } from '../../errors.ts'
import { CHANGE_LIMITS } from './change-limits.ts'
import { SEND_PROGRAM } from './sandbox-programs.ts'
import type { WorkspaceRunner } from './workspace-runner.ts'

const HEADER_BYTES = 200
const header = z.strictObject({
  i: z.int().nonnegative(),
  s: z.int().nonnegative().max(CHANGE_LIMITS.fileBytes).nullable(),
})

/** Calls `take` with each content, or with `undefined` when the path is no longer a file or the file is too large. */
export async function fetchContents(
  inside: WorkspaceRunner,
  paths: readonly string[],
  take: (index: number, content: Buffer | undefined) => Promise<void>,
  until: AbortSignal,
): Promise<void> {
  if (paths.length === 0) return
  const arriving = new ContentReader(paths.length, take)
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

/** Holds at most one file's content, plus one chunk. */
class ContentReader {
  readonly #count: number
  readonly #take: (index: number, content: Buffer | undefined) => Promise<void>
  #next = 0
  #total = 0
  #header: Buffer = Buffer.alloc(0)
  /** The content of the file that is arriving. */
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
      throw malformedContentError('it is truncated')
  }

  async #readHeader(chunk: Buffer): Promise<Buffer> {
    const end = chunk.indexOf(10)
    const part = end === -1 ? chunk : chunk.subarray(0, end)
    if (this.#header.length + part.length > HEADER_BYTES) throw malformedContentError('a line is too long')
    this.#header = Buffer.concat([this.#header, part])
    if (end === -1) return Buffer.alloc(0)
    const reply = header.safeParse(parseJson(this.#header.toString()))
    this.#header = Buffer.alloc(0)
    if (!reply.success || reply.data.i !== this.#next || this.#next >= this.#count)
      throw malformedContentError('it does not match the request')
    const { s } = reply.data
    this.#total += s ?? 0
    if (this.#total > CHANGE_LIMITS.keptBytes) throw tooMuch()
    if (s === null || s === 0) await this.#finish(s === null ? undefined : Buffer.alloc(0))
    else this.#content = { parts: [], missing: s }
    return chunk.subarray(end + 1)
  }

  async #readContent(chunk: Buffer): Promise<Buffer> {
    const arriving = this.#content!
    const part = chunk.subarray(0, arriving.missing)
    // A copy, because the chunk belongs to the reader and can be a small part of a large buffer.
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

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function malformedContentError(why: string): CraikError {
  return new CraikError('boundary_failed', `the sandbox sent invalid changed files: ${why}`, {
    hint: 'stop the processes in the sandbox, then try again',
  })
}

function tooMuch(): CraikError {
  return new CraikError('too_large', 'the changed files exceed the limit for one run', {
    hint: 'copy files out yourself:  craik sandbox cp ID:PATH .',
  })
}
