/** Codex: the ChatGPT login in its auth.json, the API key in the same file, then the macOS keychain. */
import { createHash } from 'node:crypto'
import { realpathSync } from 'node:fs'
import { join } from 'node:path'
import { CraikError } from '../../errors.ts'
import { BASE_URLS, isHeaderSafe, keyHeaders } from '../api-keys.ts'
import { codexFormat, codexKey } from '../logins/codex.ts'
import { parseDocument } from '../logins/format.ts'
import type { Found, HostEnvironment, Probe, ProbeResult } from '../probe-result.ts'
import { isProbeProblem } from '../probe-result.ts'
import { fileStamp, fileVault } from '../vaults/file-vault.ts'
import { keychainVault } from '../vaults/keychain-vault.ts'
import type { Vault } from '../vaults/vault.ts'
import { probeProgram, readUntilSettled } from './program-login.ts'
import { configFolderOf, keychainLocation, keychainStamp, shortenHome } from './searched-locations.ts'

const ID = 'codex'
const KEY_ID = 'codex/OPENAI_API_KEY'

export const codexProbe: Probe = {
  name: ID,
  async stamp(hostEnvironment) {
    const file = await fileStamp([pathIn(hostEnvironment)], hostEnvironment.nowMs())
    return file && file + keychainStamp(hostEnvironment)
  },
  searchedLocations: (hostEnvironment) => [
    shortenHome(hostEnvironment, pathIn(hostEnvironment)),
    ...keychainLocation(hostEnvironment),
  ],
  async probe(hostEnvironment, until) {
    const path = pathIn(hostEnvironment)
    const searchedLocations = [fileVault(path, shortenHome(hostEnvironment, path))]
    if (hostEnvironment.platform === 'darwin')
      searchedLocations.push(keychainVault(itemOf(hostEnvironment), hostEnvironment))
    const baseUrl = 'https://chatgpt.com/backend-api/codex'
    const login = await probeProgram(
      // Codex takes no lock while it refreshes.
      {
        id: ID,
        family: 'openai',
        baseUrl,
        searchedLocations: searchedLocations,
        format: codexFormat,
        locks: [],
      },
      hostEnvironment,
      until,
    )
    // An unreadable file is reported once.
    if (login.some(isProbeProblem)) return login
    const keys = await Promise.all(searchedLocations.map((place) => probeKey(place, hostEnvironment, until)))
    const key = keys.find((found) => found !== undefined)
    if (key === undefined) return login
    return key.preferred ? [key.finding, ...login] : [...login, key.finding]
  },
}

function pathIn(hostEnvironment: HostEnvironment): string {
  return join(configFolderOf(hostEnvironment, 'CODEX_HOME', ['.codex']), 'auth.json')
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
  const seen = await readUntilSettled(KEY_ID, vault, until, read)
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

/** The item is named after the folder of the file. */
function itemOf(hostEnvironment: HostEnvironment) {
  const folder = configFolderOf(hostEnvironment, 'CODEX_HOME', ['.codex'])
  let real = folder
  try {
    real = realpathSync(folder)
  } catch {
    // The folder does not exist: use its path unresolved.
  }
  return {
    service: 'Codex Auth',
    account: `cli|${createHash('sha256').update(real).digest('hex').slice(0, 16)}`,
  }
}
