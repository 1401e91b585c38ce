/** The routes for volumes, which outlive the sandboxes that use them. */
import type { VolumeBody } from '../api/bodies.ts'
import { volumeParams } from '../api/requests.ts'
import { snakeCase } from '../api/snake-case.ts'
import type { Api, RouteContext } from '../context.ts'

export function volumeRoutes(app: Api, { manager, caller }: RouteContext): void {
  app.get('/api/volumes', async (request, reply) => {
    const { volumes } = await manager()
    const { signal } = await caller(request, reply)
    return { volumes: (await volumes.list(signal)).map((view): VolumeBody => snakeCase(view)) }
  })
  app.delete('/api/volumes/:name', { schema: { params: volumeParams } }, async (request, reply) => {
    const { volumes } = await manager()
    const { name } = request.params
    await volumes.delete(await caller(request, reply), name)
    return { name, deleted: true }
  })
}
