/** The routes for a sandbox's files. Contents are streams that can be resumed, and everything else is JSON. */

import type { FastifyReply, FastifyRequest } from 'fastify'
import { CraikError } from '../../errors.ts'
import type { FileChange } from '../../sandboxes/boundary/boundary.ts'
import { BYTES_TYPE, HEADER, LINES_TYPE } from '../api/api-constants.ts'
import {
  listQuery,
  mkdirBody,
  moveBody,
  pathQuery,
  readQuery,
  removeBody,
  sandboxParams,
  uploadQuery,
  watchQuery,
  writeQuery,
} from '../api/requests.ts'
import { snakeCase } from '../api/snake-case.ts'
import { type Api, type RouteContext, resolveSandboxId } from '../context.ts'
import { requireBytes, sendStream } from '../stream-responses.ts'
import { withoutUndefined } from './sandboxes.ts'

const FILES = '/api/sandboxes/:id/files'
const MAX_ETAG_LENGTH = 200

export function addFileRoutes(app: Api, { manager, caller }: RouteContext): void {
  app.get(
    `${FILES}/content`,
    { schema: { params: sandboxParams, querystring: readQuery } },
    async (request, reply) => {
      const { path, offset, length } = request.query
      const { files, id, caller } = await resolveSandbox(request, reply)
      const range = withoutUndefined({ offset, length, etag: etagOf(request.headers['if-match']) })
      const content = await files.read(caller, id, path, range)
      const headers = {
        'content-type': BYTES_TYPE,
        etag: content.etag,
        [HEADER.size]: String(content.bytes),
      }
      await sendStream(reply, 200, headers, content.body)
    },
  )
  app.put(
    `${FILES}/content`,
    { schema: { params: sandboxParams, querystring: writeQuery }, onRequest: requireBytes },
    async (request, reply) => {
      const { offset, ...upload } = request.query
      const { files, id, caller } = await resolveSandbox(request, reply)
      return files.write(caller, id, upload, offset, request.raw)
    },
  )
  app.get(
    `${FILES}/upload`,
    { schema: { params: sandboxParams, querystring: uploadQuery } },
    async (request, reply) => {
      const { files, id, caller } = await resolveSandbox(request, reply)
      const upload = await files.getUpload(caller, id, request.query.upload)
      if (upload === undefined) throw new CraikError('not_found', `unknown upload: ${request.query.upload}`)
      return upload
    },
  )
  app.get(
    `${FILES}/stat`,
    { schema: { params: sandboxParams, querystring: pathQuery } },
    async (request, reply) => {
      const { files, id, caller } = await resolveSandbox(request, reply)
      return snakeCase(await files.stat(caller, id, request.query.path))
    },
  )
  app.get(
    `${FILES}/list`,
    { schema: { params: sandboxParams, querystring: listQuery } },
    async (request, reply) => {
      const { path, after, limit } = request.query
      const { files, id, caller } = await resolveSandbox(request, reply)
      return snakeCase(await files.list(caller, id, path, after, limit))
    },
  )
  app.get(
    `${FILES}/watch`,
    { schema: { params: sandboxParams, querystring: watchQuery } },
    async (request, reply) => {
      const { path, recursive, after } = request.query
      const { files, id, caller } = await resolveSandbox(request, reply)
      const lines = await files.watch(caller, id, path, recursive, after)
      await sendStream(reply, 200, { 'content-type': LINES_TYPE }, lines)
    },
  )
  app.post(`${FILES}/move`, { schema: { params: sandboxParams, body: moveBody } }, async (request, reply) =>
    change(request, reply, { kind: 'move', ...request.body }),
  )
  app.post(
    `${FILES}/remove`,
    { schema: { params: sandboxParams, body: removeBody } },
    async (request, reply) => change(request, reply, { kind: 'remove', ...request.body }),
  )
  app.post(`${FILES}/mkdir`, { schema: { params: sandboxParams, body: mkdirBody } }, async (request, reply) =>
    change(request, reply, { kind: 'mkdir', ...request.body }),
  )

  async function resolveSandbox(request: FastifyRequest, reply: FastifyReply) {
    const sandboxes = await manager()
    const id = await resolveSandboxId(sandboxes, (request.params as { readonly id: string }).id)
    return { files: sandboxes.files, id, caller: await caller(request, reply) }
  }

  async function change(request: FastifyRequest, reply: FastifyReply, requested: FileChange) {
    const { files, id, caller: who } = await resolveSandbox(request, reply)
    await files.change(who, id, requested)
    return {}
  }
}

function etagOf(header: string | undefined): string | undefined {
  if (header === undefined || header.length <= MAX_ETAG_LENGTH) return header
  throw new CraikError('usage', `the header if-match has more than ${MAX_ETAG_LENGTH} characters`)
}
