/** API keys in the environment of Craik's own process. They have the lowest preference. */

import { API_KEYS, isHeaderSafe, keyHeaders } from '../api-keys.ts'
import type { Found, Probe } from '../probe-result.ts'

export const environmentProbe: Probe = {
  name: 'env',
  searchedLocations: () => API_KEYS.map(({ name }) => name),
  stamp: async () => undefined,
  async probe({ environment, overrides }) {
    return API_KEYS.flatMap(({ name, family, baseUrl }): Found[] => {
      const key = environment[name]?.trim()
      if (key === undefined || key === '' || !isHeaderSafe(key)) return []
      const id = `env/${name}`
      return [
        {
          account: {
            id,
            family,
            kind: 'api_key',
            source: `the variable ${name}`,
            expiresAtMs: undefined,
            who: undefined,
            billing: 'metered',
            baseUrl: overrides[id]?.base_url ?? baseUrl,
          },
          login: { kind: 'key', headers: keyHeaders(family), read: async () => key },
        },
      ]
    })
  },
}
