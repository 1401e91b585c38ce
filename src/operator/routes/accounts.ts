/** The route for logins that only the user's own command can read from its environment. */
import { keysBody } from '../api/requests.ts'
import type { Api, RouteContext } from '../context.ts'
import { withoutUndefined } from './sandboxes.ts'

/** Every known name fits with the longest value. */
const MAX_BYTES = 64 * 1024

export function accountRoutes(app: Api, { manager, caller }: RouteContext): void {
  app.put(
    '/api/accounts/environment',
    { schema: { body: keysBody }, bodyLimit: MAX_BYTES },
    async (request, reply) => {
      const keys = withoutUndefined(request.body.keys)
      const { signal } = await caller(request, reply)
      await (await manager()).offerKeys(keys, signal)
      return { offered: Object.keys(keys) }
    },
  )
}
