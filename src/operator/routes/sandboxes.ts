/** The routes that create, list, show and remove sandboxes, and report their events. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { CraikError } from '../../errors.ts'
import type { SandboxId } from '../../lib/ids.ts'
import type { Isolation } from '../../sandboxes/backend.ts'
import type {
  CreateRequest,
  ManagerCaller,
  SandboxManager,
  SandboxView,
  SnapshotView,
} from '../../sandboxes/manager-types.ts'
import type { CapacityBody, ListedSandboxBody, SandboxBody } from '../api/bodies.ts'
import { createBody, eventsQuery, sandboxParams, stopBody } from '../api/requests.ts'
import { snakeCase } from '../api/snake-case.ts'
import { type Api, type RouteContext, resolveSandboxId } from '../context.ts'
import { sendLines } from '../stream-responses.ts'

export function sandboxRoutes(app: Api, { manager, caller }: RouteContext): void {
  async function sendChanged(
    request: FastifyRequest<{ Params: { id: string } }>,
    reply: FastifyReply,
    change: (sandboxes: SandboxManager, by: ManagerCaller, id: SandboxId) => Promise<SandboxView>,
  ): Promise<SandboxBody> {
    const sandboxes = await manager()
    const id = await resolveSandboxId(sandboxes, request.params.id)
    return sandboxBody(await change(sandboxes, await caller(request, reply), id))
  }

  app.post('/api/sandboxes', { schema: { body: createBody } }, async (request, reply) => {
    const { limits, policy_envelope_id, container, isolation, ends, backend: named, ...body } = request.body
    const from = body.from === undefined ? undefined : await (await manager()).snapshots.get(body.from)
    const backend = named ?? from?.backend ?? 'process'
    const requested: CreateRequest = {
      ...withoutUndefined(body),
      backend,
      isolation: isolation ?? requireSameIsolation(from) ?? (backend === 'docker' ? 'container' : 'process'),
      ...(container && { container: withoutUndefined(container) }),
      limits: withoutUndefined({
        memoryBytes: limits.memory_bytes,
        processes: limits.processes,
        cpuMillis: limits.cpu_millis,
        diskBytes: limits.disk_bytes,
      }),
      ...(policy_envelope_id !== undefined && { policyEnvelopeId: policy_envelope_id }),
      ends: withoutUndefined({ idleMs: ends.idle_ms, lifetimeMs: ends.lifetime_ms, keepMs: ends.keep_ms }),
    }
    const view = await (await manager()).create(await caller(request, reply), requested)
    return reply.code(201).send(sandboxBody(view))
  })
  app.get('/api/sandboxes', async () => ({
    sandboxes: (await (await manager()).list()).map((view): ListedSandboxBody => snakeCase(view)),
  }))
  app.get('/api/limits', async () => ({
    limits: (await (await manager()).capacity()).map((capacity): CapacityBody => snakeCase(capacity)),
  }))
  app.get('/api/sandboxes/:id', { schema: { params: sandboxParams } }, async ({ params }) =>
    sandboxBody(await (await manager()).get(params.id)),
  )
  // A client that received no response repeats its request. Each of these routes changes nothing when the sandbox is
  // already in the requested state.
  app.post(
    '/api/sandboxes/:id/stop',
    { schema: { params: sandboxParams, body: stopBody } },
    async (request, reply) => {
      const { grace_ms } = request.body
      const requested = grace_ms === undefined ? {} : { graceMs: grace_ms }
      return sendChanged(request, reply, (sandboxes, by, id) => sandboxes.stop(by, id, requested))
    },
  )
  app.post('/api/sandboxes/:id/resume', { schema: { params: sandboxParams } }, (request, reply) =>
    sendChanged(request, reply, (sandboxes, by, id) => sandboxes.resume(by, id)),
  )
  app.post('/api/sandboxes/:id/pause', { schema: { params: sandboxParams } }, (request, reply) =>
    sendChanged(request, reply, (sandboxes, by, id) => sandboxes.pause(by, id)),
  )
  app.delete('/api/sandboxes/:id', { schema: { params: sandboxParams } }, async (request, reply) => {
    const sandboxes = await manager()
    const id = await resolveSandboxId(sandboxes, request.params.id)
    await sandboxes.delete(await caller(request, reply), id)
    return { id, deleted: true }
  })
  app.get(
    '/api/sandboxes/:id/events',
    { schema: { params: sandboxParams, querystring: eventsQuery } },
    async (request, reply) => {
      const sandboxes = await manager()
      const { id } = await sandboxes.get(request.params.id)
      const { signal } = await caller(request, reply)
      const events = sandboxes.events(id, request.query.follow, signal)
      await sendLines(reply, toSnakeCase(events))
    },
  )
}

/**
 * A snapshot of a sandbox without isolation does not set the isolation of a new one, because the snapshot may come from
 * another user. The request must choose it.
 */
function requireSameIsolation(from: SnapshotView | undefined): Isolation | undefined {
  if (from?.isolation !== 'none') return from?.isolation
  throw new CraikError('usage', `snapshot ${from.name} comes from a sandbox with isolation none`, {
    hint: `choose an isolation:  craik sandbox create --from ${from.name} --isolation process`,
  })
}

export function sandboxBody(view: SandboxView): SandboxBody {
  return snakeCase(view)
}

async function* toSnakeCase<T>(values: AsyncIterable<T>): AsyncGenerator<unknown> {
  for await (const value of values) yield snakeCase(value)
}

/** Removes the fields that are undefined, because receivers treat an absent field differently from an undefined one. */
export function withoutUndefined<T extends object>(
  value: T,
): { [Key in keyof T]: Exclude<T[Key], undefined> } {
  return Object.fromEntries(Object.entries(value).filter(([, field]) => field !== undefined)) as never
}
