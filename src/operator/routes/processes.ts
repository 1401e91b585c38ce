/** The routes for a sandbox's processes, logins and ports, and for the resources that it uses. */
import { CraikError } from '../../errors.ts'
import { PORT_PROTOCOL } from '../api/api-constants.ts'
import type { StatsBody } from '../api/bodies.ts'
import { portParams, processParams, sandboxParams, signalBody } from '../api/requests.ts'
import { snakeCase } from '../api/snake-case.ts'
import { type Api, type RouteContext, resolveSandboxId } from '../context.ts'

const SANDBOX = '/api/sandboxes/:id'

export function addProcessRoutes(app: Api, { manager, caller }: RouteContext): void {
  app.get(`${SANDBOX}/processes`, { schema: { params: sandboxParams } }, async (request, reply) => {
    const sandboxes = await manager()
    const id = await resolveSandboxId(sandboxes, request.params.id)
    const processes = await sandboxes.inside.processes(await caller(request, reply), id)
    return { processes: processes.map((process) => snakeCase(process)) }
  })
  app.post(
    `${SANDBOX}/processes/:pid/signal`,
    { schema: { params: processParams, body: signalBody } },
    async (request, reply) => {
      const sandboxes = await manager()
      const id = await resolveSandboxId(sandboxes, request.params.id)
      const { pid } = request.params
      await sandboxes.inside.signal(await caller(request, reply), id, pid, request.body.signal)
      return {}
    },
  )
  app.get(
    `${SANDBOX}/stats`,
    { schema: { params: sandboxParams } },
    async (request, reply): Promise<StatsBody> => {
      const sandboxes = await manager()
      const id = await resolveSandboxId(sandboxes, request.params.id)
      return snakeCase(await sandboxes.inside.stats(await caller(request, reply), id))
    },
  )
  app.post(`${SANDBOX}/logins`, { schema: { params: sandboxParams } }, async (request, reply) => {
    const sandboxes = await manager()
    const id = await resolveSandboxId(sandboxes, request.params.id)
    return { logins: await sandboxes.inside.putLogins(await caller(request, reply), id) }
  })
  app.get(`${SANDBOX}/ports/:port/check`, { schema: { params: portParams } }, async (request, reply) => {
    const sandboxes = await manager()
    const id = await resolveSandboxId(sandboxes, request.params.id)
    await sandboxes.inside.mayConnect(await caller(request, reply), id, request.params.port)
    return {}
  })
  // A request with an upgrade does not reach this route: see ports.ts.
  app.get(`${SANDBOX}/ports/:port`, { schema: { params: portParams } }, () => {
    throw new CraikError('usage', 'a request for a port must upgrade the connection', {
      hint: `send the headers  connection: Upgrade  and  upgrade: ${PORT_PROTOCOL}`,
    })
  })
}
