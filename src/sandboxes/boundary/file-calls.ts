/** The host's requests for files in a sandbox. */
import { LIMITS } from '../../sidecar/protocol.ts'
import { BodyStream, type Check } from './body-stream.ts'
import type { BoundaryFiles, FileChange, FileRange } from './boundary.ts'
import type { BoundaryCounter } from './boundary-counter.ts'
import { MAX_LIST_BYTES } from './boundary-timeouts.ts'
import { type BoundaryConnection, cut, type SidecarRequest } from './connection.ts'
import { isNotFound } from './job-calls.ts'
import { sendToSidecar } from './send.ts'
import { type AnswerHeaders, requestJson, requestStream, sendRequest } from './sidecar-request.ts'
import {
  fileListSchema,
  fileStatSchema,
  headerNumber,
  invalidResponse,
  uploadSchema,
} from './sidecar-responses.ts'
import { WatchLines } from './watch-lines.ts'

/** File content arrives in pieces of 16 KiB. The body passes on up to this many bytes at a time. */
const GATHER_BYTES = 128 * 1024

export function boundaryFiles(connection: BoundaryConnection, counter: BoundaryCounter): BoundaryFiles {
  const { silenceMs } = connection.timeouts
  return {
    async read(path, range, until) {
      counter.add('reads')
      const doing = 'read a file'
      const query = { path, offset: range.offset, length: range.length, etag: range.etag }
      const question = { method: 'GET', path: '/files/content', query, doing } as const
      const { stream, headers } = await requestStream(connection, question, until)
      try {
        const { etag, bytes, length } = contentOf(headers, range, doing)
        const check = new ExactLength(length, doing)
        const options = { connection, doing, check, until, silenceMs, gatherBytes: GATHER_BYTES }
        return { etag, bytes, body: new BodyStream(stream, options) }
      } catch (error) {
        cut(stream)
        throw error
      }
    },
    async write(upload, offset, body, until) {
      counter.addOnce('writes', upload.upload)
      const doing = 'write a file'
      const query = {
        path: upload.path,
        upload: upload.upload,
        offset,
        size: upload.bytes,
        mode: upload.mode,
      }
      const question = { method: 'PUT', path: '/files/content', query, doing } as const
      const answer = await sendToSidecar(connection, question, uploadSchema, body, until, { silenceMs })
      if (answer.offset > upload.bytes) throw invalidResponse(doing, 'an invalid offset')
      return answer
    },
    async getUpload(upload, until) {
      const query = { upload }
      const question = {
        method: 'GET',
        path: '/files/upload',
        query,
        doing: 'get the state of an upload',
      } as const
      try {
        return await requestJson(connection, question, uploadSchema, until)
      } catch (error) {
        if (isNotFound(error)) return undefined
        throw error
      }
    },
    stat(path, until) {
      counter.add('looks')
      const question = {
        method: 'GET',
        path: '/files/stat',
        query: { path },
        doing: 'inspect a file',
      } as const
      return requestJson(connection, question, fileStatSchema, until)
    },
    list(path, after, limit, until) {
      counter.add('looks')
      const query = { path, after, limit: Math.min(limit, LIMITS.listEntries) }
      const question = { method: 'GET', path: '/files/list', query, doing: 'list a folder' } as const
      return requestJson(connection, question, fileListSchema, until, { maxBytes: MAX_LIST_BYTES })
    },
    change(change, until) {
      counter.add('writes')
      const { kind, ...body } = change
      const question = { method: 'POST', path: `/files/${kind}`, doing: CHANGING[kind] } as const
      return sendRequest(connection, question, until, { body })
    },
    async watch(path, recursive, after, until) {
      counter.add('reads')
      const doing = 'watch a folder'
      const query = { path, recursive: recursive ? 1 : 0, after }
      const request: SidecarRequest = { method: 'GET', path: '/files/watch', query, doing }
      const { stream } = await requestStream(connection, request, until)
      return new BodyStream(stream, { connection: connection, doing, check: new WatchLines(doing), until })
    },
  }
}

const CHANGING: Readonly<Record<FileChange['kind'], string>> = {
  move: 'move a file',
  remove: 'remove a file',
  mkdir: 'create a folder',
}

interface Content {
  readonly etag: string
  readonly bytes: number
  readonly length: number
}

function contentOf(headers: AnswerHeaders, range: FileRange, doing: string): Content {
  const bytes = headerNumber(headers['craik-size'])
  const length = headerNumber(headers['content-length'])
  const { etag } = headers
  if (bytes === undefined || length === undefined) throw invalidResponse(doing, 'no length')
  if (typeof etag !== 'string' || !/^[\x21-\x7e]{1,200}$/.test(etag)) throw invalidResponse(doing, 'no etag')
  if (range.etag !== undefined && etag !== range.etag) throw invalidResponse(doing, 'a different file')
  const left = Math.max(0, bytes - range.offset)
  if (length !== Math.min(range.length ?? left, left))
    throw invalidResponse(doing, 'a different length than requested')
  return { etag, bytes, length }
}

/** Checks that a body has exactly this many bytes. */
class ExactLength implements Check {
  readonly #doing: string
  #missing: number

  constructor(bytes: number, doing: string) {
    this.#missing = bytes
    this.#doing = doing
  }

  chunk(data: Buffer): void {
    this.#missing -= data.length
    if (this.#missing < 0) throw invalidResponse(this.#doing, 'more data than announced')
  }

  end(): void {
    if (this.#missing > 0) throw invalidResponse(this.#doing, 'less data than announced')
  }
}
