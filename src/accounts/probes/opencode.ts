/** OpenCode's auth.json: its API keys of the families that Craik knows. */
import { join } from 'node:path'
import { z } from 'zod'
import { CraikError } from '../../errors.ts'
import type { AccountFamily } from '../account.ts'
import { BASE_URLS, isHeaderSafe, keyHeaders } from '../api-keys.ts'
import { LOGIN_COMMANDS } from '../log-in-again.ts'
import { parseDocument } from '../logins/format.ts'
import type { HostEnvironment, Probe, ProbeResult } from '../probe-result.ts'
import { fileStamp, fileVault } from '../vaults/file-vault.ts'
import { readUntilSettled } from './program-login.ts'
import { configFolderOf, shortenHome } from './searched-locations.ts'

const ID = 'opencode'
const LOGIN = LOGIN_COMMANDS.opencode

/** By OpenCode's provider names. */
const KNOWN: Readonly<Record<string, AccountFamily>> = {
  openrouter: 'openrouter',
  anthropic: 'anthropic',
  openai: 'openai',
  google: 'gemini',
  'kimi-for-coding': 'kimi',
}

const entry = z.looseObject({ type: z.string().max(100), key: z.string().max(65_536).optional() })

export const opencodeProbe: Probe = {
  name: ID,
  stamp: (hostEnvironment) => fileStamp([pathIn(hostEnvironment)], hostEnvironment.nowMs()),
  searchedLocations: (hostEnvironment) => [shortenHome(hostEnvironment, pathIn(hostEnvironment))],
  async probe(hostEnvironment, until) {
    const path = pathIn(hostEnvironment)
    const vault = fileVault(path, shortenHome(hostEnvironment, path))
    const read = async () => {
      const snapshot = await vault.read(until)
      return snapshot && { document: parseDocument(snapshot.text, vault.source, LOGIN) }
    }
    const seen = await readUntilSettled(ID, vault, until, read)
    if (seen === undefined) return []
    if ('problem' in seen) return [seen]
    return Object.keys(KNOWN).flatMap((name) => findingFor(name, seen.document[name]))

    function findingFor(name: string, value: unknown): readonly ProbeResult[] {
      if (value === undefined || value === null) return []
      const id = `${ID}/${name}`
      const source = `${vault.source}, ${name}`
      const parsed = entry.safeParse(value)
      if (!parsed.success)
        return [
          { id, source, problem: `${source} is not a valid OpenCode entry`, hint: `log in again:  ${LOGIN}` },
        ]
      const { type, key } = parsed.data
      if (type === 'oauth')
        return [
          {
            id,
            source,
            problem: `${source} is a login that only OpenCode itself can refresh`,
            hint: 'log in with the provider’s own program, or with an API key',
          },
        ]
      if (type !== 'api' || key === undefined || key === '' || !isHeaderSafe(key)) return []
      const family = KNOWN[name]!
      return [
        {
          account: {
            id,
            family,
            kind: 'api_key',
            source,
            expiresAtMs: undefined,
            who: undefined,
            billing: 'metered',
            baseUrl: hostEnvironment.overrides[id]?.base_url ?? BASE_URLS[family],
          },
          login: {
            kind: 'key',
            vault,
            headers: keyHeaders(family),
            async read() {
              const now = entry.safeParse((await read())?.document[name])
              if (now.success && now.data.key) return now.data.key
              throw new CraikError('unavailable', `${source} no longer exists`, {
                hint: `log in again:  ${LOGIN}`,
              })
            },
          },
        },
      ]
    }
  },
}

function pathIn(hostEnvironment: HostEnvironment): string {
  return join(configFolderOf(hostEnvironment, 'XDG_DATA_HOME', ['.local', 'share']), 'opencode', 'auth.json')
}
