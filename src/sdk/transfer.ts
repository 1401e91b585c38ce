/**
 * Copies files into and out of a sandbox. When the supervisor disconnects, bytes that have arrived are not sent again.
 */
import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import { CraikError } from '../errors.ts'
import { delay } from '../lib/delay.ts'
import { newId } from '../lib/ids.ts'
import { BYTES_TYPE, HEADER } from '../operator/api/api-constants.ts'
import type { UploadBody } from '../operator/api/bodies.ts'
import { type CallOptions, common, query, sandboxPath } from './api-paths.ts'
import type { ApiClient } from './client.ts'
import { RetryDeadlines } from './retry-deadlines.ts'
import { type JobEnd, type RunJobOptions, runJob } from './run-job.ts'
import { TransferAttempts } from './transfer-attempts.ts'
import { bodyFrom, jsonOf, LostConnection, responseChunks, type Transport } from './transport.ts'

export interface TransferOptions extends CallOptions {
  readonly onProgress?: (bytes: number, ofBytes: number) => void
}

const PAUSE_MS = 20

/** Yields the bytes of a file. When the file changes during the transfer, the transfer fails with `conflict`. */
export async function* readFile(
  client: ApiClient,
  sandbox: string,
  path: string,
  options: TransferOptions & { readonly offset?: number; readonly length?: number } = {},
): AsyncGenerator<Buffer> {
  const deadlines = new RetryDeadlines()
  const attempts = new TransferAttempts()
  let at = options.offset ?? 0
  let end: number | undefined
  let etag: string | undefined
  for (;;) {
    try {
      const length = end === undefined ? options.length : end - at
      const response = await client.link.send({
        method: 'GET',
        path: sandboxPath(sandbox, `/files/content${query({ path, offset: at, length })}`),
        ...common(options),
        headers: { ...common(options).headers, ...(etag !== undefined && { 'if-match': etag }) },
      })
      const size = sizeOf(response)
      end ??= Math.max(at, options.length === undefined ? size : Math.min(size, at + options.length))
      etag = response.headers.etag
      for await (const chunk of responseChunks(response)) {
        deadlines.reset()
        attempts.reset()
        at += chunk.length
        if (at > end) throw tooLong()
        options.onProgress?.(at, end)
        yield chunk
      }
    } catch (error) {
      options.signal?.throwIfAborted()
      const evaluated = etag === undefined ? error : deadlines.checkError(attempts.checkError(error))
      if (!(evaluated instanceof LostConnection)) throw evaluated
      await delay(PAUSE_MS, options.signal)
      continue
    }
    if (at === end) return
    throw new CraikError(
      'conflict',
      `the file ended at byte ${at} of ${end}: it changed during the transfer`,
      {
        hint: 'try again when no program changes the file',
      },
    )
  }
}

function tooLong(): CraikError {
  return new CraikError('conflict', 'the file became larger during the transfer', {
    hint: 'try again when no program changes the file',
  })
}

function sizeOf(response: IncomingMessage): number {
  const size = Number(response.headers[HEADER.size])
  if (Number.isSafeInteger(size) && size >= 0) return size
  throw new CraikError('boundary_failed', 'the response does not contain the size of the file')
}

export interface FileSource {
  readonly bytes: number
  /** Such as 0o644. */
  readonly mode: number
  /** Returns the content from that byte on. Called again when the transfer broke off. */
  open(offset: number): Readable
}

/** Writes a file, completely or not at all. */
export async function writeFile(
  client: ApiClient,
  sandbox: string,
  path: string,
  source: FileSource,
  options: TransferOptions = {},
): Promise<void> {
  // The supervisor remembers this id like that of a job, so a retry continues under the same receipt.
  const upload = newId('job', Date.now())
  const { bytes } = source
  const mode = source.mode.toString(8).padStart(3, '0')
  const deadlines = new RetryDeadlines()
  const attempts = new TransferAttempts()
  let first = true
  let arrived = 0
  const attempt = async (transport: Transport, progress: () => void) => {
    const { offset, committed }: UploadBody = first
      ? { offset: 0, committed: false }
      : await client.files.getUpload(sandbox, upload, options).catch(emptyUploadIfUnknown)
    if (!first) progress()
    first = false
    if (committed) return true
    if (offset > arrived) {
      deadlines.reset()
      attempts.reset()
    }
    arrived = offset
    let failure: unknown
    const content = countingChunks(source.open(offset), offset, bytes, options, (error) => {
      failure = error
    })
    const response = await transport
      .send({
        method: 'PUT',
        path: sandboxPath(sandbox, `/files/content${query({ path, upload, offset, bytes, mode })}`),
        body: bodyFrom(content),
        ...common(options),
        headers: { 'content-type': BYTES_TYPE, ...common(options).headers },
      })
      .catch((error) => {
        // A source that cannot be read looks like a broken connection, but a retry does not help.
        throw failure ?? error
      })
    return (await jsonOf<UploadBody>(response)).committed
  }
  const done = await client.link.persist(options.signal, (transport, progress) =>
    attempt(transport, progress).catch((error) => {
      throw deadlines.checkError(attempts.checkError(error))
    }),
  )
  if (!done) throw new CraikError('boundary_failed', 'the file was uploaded but not saved')
}

async function* countingChunks(
  body: Readable,
  from: number,
  ofBytes: number,
  options: TransferOptions,
  failed: (error: unknown) => void,
): AsyncGenerator<Buffer> {
  let at = from
  const chunks = (body as AsyncIterable<Buffer>)[Symbol.asyncIterator]()
  try {
    for (;;) {
      const next = await chunks.next().catch((error) => {
        failed(error)
        throw error
      })
      if (next.done) return
      at += next.value.length
      yield next.value
      options.onProgress?.(at, ofBytes)
    }
  } finally {
    body.destroy()
  }
}

/** An unknown upload broke off before any of it arrived. */
function emptyUploadIfUnknown(error: unknown): UploadBody {
  if (error instanceof CraikError && error.code === 'not_found') return { offset: 0, committed: false }
  throw error
}

/** Unpacks a tar archive into a folder of the sandbox. */
export function tarIn(
  client: ApiClient,
  sandbox: string,
  path: string,
  archive: Readable,
  options: Omit<RunJobOptions, 'stdin'>,
): Promise<JobEnd> {
  return runJob(client, sandbox, { kind: 'tar-in', path }, { ...options, stdin: archive })
}

/** Packs a file or folder of the sandbox. The archive comes through `onStdout`. */
export function tarOut(
  client: ApiClient,
  sandbox: string,
  path: string,
  options: Omit<RunJobOptions, 'stdin'>,
): Promise<JobEnd> {
  return runJob(client, sandbox, { kind: 'tar-out', path }, options)
}
