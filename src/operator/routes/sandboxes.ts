/** Sandboxes themselves: made, listed, shown, removed, and what happened to them. */
import type { CreateRequest, SandboxView } from '../../sandboxes/manager-types.ts'
import type { ListedSandboxBody, SandboxBody } from '../api/bodies.ts'
import { createBody, eventsQuery, sandboxParams } from '../api/requests.ts'
import { snakeCase } from '../api/snake-case.ts'
import { type Api, type RouteContext, sandboxId } from '../context.ts'
import { sendLines } from '../streams.ts'

export function sandboxRoutes(app: Api, { manager, caller }: RouteContext): void {
  app.post('/api/sandboxes', { schema: { body: createBody } }, async (request, reply) => {
    const { limits, policy_envelope_id, ...body } = request.body
    const asked: CreateRequest = {
      ...given(body),
      limits: given({
        memoryBytes: limits.memory_bytes,
        processes: limits.processes,
        cpuMillis: limits.cpu_millis,
        diskBytes: limits.disk_bytes,
      }),
      ...(policy_envelope_id !== undefined && { policyEnvelopeId: policy_envelope_id }),
    }
    const view = await (await manager()).create(await caller(request, reply), asked)
    return reply.code(201).send(sandboxBody(view))
  })
  app.get('/api/sandboxes', async () => ({
    sandboxes: (await (await manager()).list()).map((view): ListedSandboxBody => snakeCase(view)),
  }))
  app.get('/api/sandboxes/:id', { schema: { params: sandboxParams } }, async ({ params }) =>
    sandboxBody(await (await manager()).get(params.id)),
  )
  app.delete('/api/sandboxes/:id', { schema: { params: sandboxParams } }, async (request, reply) => {
    const sandboxes = await manager()
    const id = await sandboxId(sandboxes, request.params.id)
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
      await sendLines(reply, renamed(events))
    },
  )
}

function sandboxBody(view: SandboxView): SandboxBody {
  return snakeCase(view)
}

async function* renamed<T>(values: AsyncIterable<T>): AsyncGenerator<unknown> {
  for await (const value of values) yield snakeCase(value)
}

/** Without the fields that were not given: absent and undefined are not the same to who gets it. */
export function given<T extends object>(value: T): { [Key in keyof T]: Exclude<T[Key], undefined> } {
  return Object.fromEntries(Object.entries(value).filter(([, field]) => field !== undefined)) as never
}
