/** Codex: the ChatGPT login in its auth.json, the API key beside it, then the keychain of macOS. */
import { createHash } from 'node:crypto'
import { realpathSync } from 'node:fs'
import { join } from 'node:path'
import { CraikError } from '../../errors.ts'
import { BASE_URLS, isHeaderSafe, keyHeaders } from '../keys.ts'
import { codexFormat, codexKey } from '../logins/codex.ts'
import { parseDocument } from '../logins/format.ts'
import type { Found, HostEnvironment, Probe, ProbeResult } from '../probe-result.ts'
import { isProbeProblem } from '../probe-result.ts'
import { fileStamp, fileVault } from '../vaults/file-vault.ts'
import { keychainVault } from '../vaults/keychain-vault.ts'
import type { Vault } from '../vaults/vault.ts'
import { probeProgram, settled } from './program-login.ts'
import { configFolderOf, keychainLocation, keychainStamp, shortenHome } from './searched-locations.ts'

const ID = 'codex'
const KEY_ID = 'codex/OPENAI_API_KEY'

export const codexProbe: Probe = {
  name: ID,
  async stamp(surroundings) {
    const file = await fileStamp([pathIn(surroundings)], surroundings.nowMs())
    return file && file + keychainStamp(surroundings)
  },
  places: (surroundings) => [
    shortenHome(surroundings, pathIn(surroundings)),
    ...keychainLocation(surroundings),
  ],
  async probe(surroundings, until) {
    const path = pathIn(surroundings)
    const places = [fileVault(path, shortenHome(surroundings, path))]
    if (surroundings.platform === 'darwin') places.push(keychainVault(itemOf(surroundings), surroundings))
    const baseUrl = 'https://chatgpt.com/backend-api/codex'
    const login = await probeProgram(
      // It takes no lock while it refreshes.
      { id: ID, family: 'openai', baseUrl, places, format: codexFormat, locks: [] },
      surroundings,
      until,
    )
    // A file that cannot be read is told once.
    if (login.some(isProbeProblem)) return login
    const keys = await Promise.all(places.map((place) => probeKey(place, surroundings, until)))
    const key = keys.find((found) => found !== undefined)
    if (key === undefined) return login
    return key.preferred ? [key.finding, ...login] : [...login, key.finding]
  },
}

function pathIn(surroundings: HostEnvironment): string {
  return join(configFolderOf(surroundings, 'CODEX_HOME', ['.codex']), 'auth.json')
}

async function probeKey(
  vault: Vault,
  { overrides }: HostEnvironment,
  until: AbortSignal,
): Promise<{ readonly finding: ProbeResult; readonly preferred: boolean } | undefined> {
  const read = async () => {
    const snapshot = await vault.read(until)
    return snapshot && codexKey(parseDocument(snapshot.text, vault.source, codexFormat.loginCommand))
  }
  const seen = await settled(KEY_ID, vault, until, read)
  if (seen === undefined || 'problem' in seen || !isHeaderSafe(seen.key)) return undefined
  const finding: Found = {
    account: {
      id: KEY_ID,
      family: 'openai',
      kind: 'api_key',
      source: `${vault.source}, OPENAI_API_KEY`,
      expiresAtMs: undefined,
      who: undefined,
      billing: 'metered',
      baseUrl: overrides[KEY_ID]?.base_url ?? BASE_URLS.openai,
    },
    login: {
      kind: 'key',
      vault,
      headers: keyHeaders('openai'),
      async read() {
        const now = await read()
        if (now !== undefined) return now.key
        throw new CraikError('unavailable', `${vault.source} no longer contains an API key`, {
          hint: `log in again:  ${codexFormat.loginCommand}`,
        })
      },
    },
  }
  return { finding, preferred: seen.preferred }
}

/** The item is named after the folder that the file would be in. */
function itemOf(surroundings: HostEnvironment) {
  const folder = configFolderOf(surroundings, 'CODEX_HOME', ['.codex'])
  let real = folder
  try {
    real = realpathSync(folder)
  } catch {
    // Not there: named as it is.
  }
  return {
    service: 'Codex Auth',
    account: `cli|${createHash('sha256').update(real).digest('hex').slice(0, 16)}`,
  }
}
