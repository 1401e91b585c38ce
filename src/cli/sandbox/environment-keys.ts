/**
 * Sends the API keys in the environment of a command to the supervisor over its socket, because the supervisor does not
 * have that environment.
 */
import { API_KEYS, isHeaderSafe } from '../../accounts/api-keys.ts'
import type { ApiClient } from '../../sdk/client.ts'
import type { CliContext } from '../context.ts'

export function keysIn(environment: NodeJS.ProcessEnv): Readonly<Record<string, string>> {
  return Object.fromEntries(
    API_KEYS.flatMap(({ name }) => {
      const key = environment[name]?.trim() ?? ''
      return isHeaderSafe(key) ? [[name, key]] : []
    }),
  )
}

/** If there are none, the keys from another terminal stay. */
export async function offerKeys({ environment, signal }: CliContext, client: ApiClient): Promise<void> {
  const keys = keysIn(environment)
  if (Object.keys(keys).length > 0) await client.accounts.offer(keys, { signal })
}
