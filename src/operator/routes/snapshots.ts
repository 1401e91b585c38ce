/** The routes that create, restore, fork, export and import snapshots. */
import type { ExportRequest, SnapshotView } from '../../sandboxes/manager-types.ts'
import { BYTES_TYPE, HEADER } from '../api/api-constants.ts'
import type { ListedSnapshotBody, SnapshotBody } from '../api/bodies.ts'
import {
  exportBody,
  forkBody,
  importQuery,
  restoreBody,
  sandboxParams,
  snapshotBody,
  snapshotParams,
} from '../api/requests.ts'
import { snakeCase } from '../api/snake-case.ts'
import { type Api, type RouteContext, resolveSandboxId } from '../context.ts'
import { requireBytes, sendStream } from '../stream-responses.ts'
import { sandboxBody, withoutUndefined } from './sandboxes.ts'

export function snapshotRoutes(app: Api, { manager, caller }: RouteContext): void {
  app.post(
    '/api/sandboxes/:id/snapshot',
    { schema: { params: sandboxParams, body: snapshotBody } },
    async (request, reply) => {
      const sandboxes = await manager()
      const id = await resolveSandboxId(sandboxes, request.params.id)
      const view = await sandboxes.snapshot(await caller(request, reply), id, withoutUndefined(request.body))
      return reply.code(201).send(toSnapshotBody(view))
    },
  )
  app.post(
    '/api/sandboxes/:id/restore',
    { schema: { params: sandboxParams, body: restoreBody } },
    async (request, reply) => {
      const sandboxes = await manager()
      const id = await resolveSandboxId(sandboxes, request.params.id)
      return sandboxBody(await sandboxes.restore(await caller(request, reply), id, request.body.snapshot))
    },
  )
  app.post(
    '/api/sandboxes/:id/fork',
    { schema: { params: sandboxParams, body: forkBody } },
    async (request, reply) => {
      const sandboxes = await manager()
      const id = await resolveSandboxId(sandboxes, request.params.id)
      const view = await sandboxes.fork(await caller(request, reply), id, withoutUndefined(request.body))
      return reply.code(201).send(sandboxBody(view))
    },
  )
  app.get('/api/snapshots', async () => ({
    snapshots: (await (await manager()).snapshots.list()).map((view): ListedSnapshotBody => snakeCase(view)),
  }))
  app.get('/api/snapshots/:id', { schema: { params: snapshotParams } }, async ({ params }) =>
    toSnapshotBody(await (await manager()).snapshots.get(params.id)),
  )
  app.delete('/api/snapshots/:id', { schema: { params: snapshotParams } }, async (request, reply) => {
    const { snapshots } = await manager()
    const id = await snapshots.delete(await caller(request, reply), request.params.id)
    return { id, deleted: true }
  })
  app.get('/api/snapshots/:id/bundle', { schema: { params: snapshotParams } }, async (request, reply) => {
    const { snapshots } = await manager()
    const { view, bytes, body } = await snapshots.open(await caller(request, reply), request.params.id)
    const headers = {
      'content-type': BYTES_TYPE,
      [HEADER.size]: String(bytes),
      [HEADER.digest]: view.digest,
    }
    await sendStream(reply, 200, headers, body)
  })
  app.post(
    '/api/snapshots',
    { schema: { querystring: importQuery }, onRequest: requireBytes },
    async (request, reply) => {
      const { snapshots } = await manager()
      const by = await caller(request, reply)
      return reply
        .code(201)
        .send(toSnapshotBody(await snapshots.import(by, request.raw, withoutUndefined(request.query))))
    },
  )
  app.post(
    '/api/snapshots/:id/export',
    { schema: { params: snapshotParams, body: exportBody } },
    async (request, reply) => {
      const { snapshots } = await manager()
      const { destination, endpoint, region, ...rest } = request.body
      const requested: ExportRequest = withoutUndefined({
        destination,
        endpoint,
        region,
        accessKeyRef: rest.access_key_ref,
        secretKeyRef: rest.secret_key_ref,
        sessionTokenRef: rest.session_token_ref,
        allowPrivateAddress: rest.allow_private_address,
      })
      return snakeCase(await snapshots.export(await caller(request, reply), request.params.id, requested))
    },
  )
}

function toSnapshotBody(view: SnapshotView): SnapshotBody {
  return snakeCase(view)
}
