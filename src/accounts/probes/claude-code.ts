/** Claude Code: its credentials file, then the keychain of macOS. */
import { createHash } from 'node:crypto'
import { realpathSync } from 'node:fs'
import { join } from 'node:path'
import { BASE_URLS } from '../keys.ts'
import { claudeCodeFormat } from '../logins/claude-code.ts'
import type { HostEnvironment, Probe, ProgramLock } from '../probe-result.ts'
import { fileStamp, fileVault } from '../vaults/file-vault.ts'
import { keychainVault } from '../vaults/keychain-vault.ts'
import { probeProgram } from './program-login.ts'
import { configFolderOf, keychainLocation, keychainStamp, shortenHome } from './searched-locations.ts'

const ID = 'claude-code'
const STALE_MS = 60_000

export const claudeCodeProbe: Probe = {
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
    const { platform } = surroundings
    const places = [fileVault(path, shortenHome(surroundings, path))]
    if (platform === 'darwin') places.push(keychainVault(itemOf(surroundings), surroundings))
    const format = claudeCodeFormat
    const locks = locksIn(surroundings)
    return probeProgram(
      { id: ID, family: 'anthropic', baseUrl: BASE_URLS.anthropic, places, format, locks },
      surroundings,
      until,
    )
  },
}

function folderIn(surroundings: HostEnvironment): string {
  return configFolderOf(surroundings, 'CLAUDE_CONFIG_DIR', ['.claude'])
}

function pathIn(surroundings: HostEnvironment): string {
  return join(folderIn(surroundings), '.credentials.json')
}

/** Both of the folders that the program makes while it refreshes: the present one, and the one of earlier releases. */
function locksIn(surroundings: HostEnvironment): readonly ProgramLock[] {
  const folder = folderIn(surroundings)
  return [
    { path: join(folder, '.oauth_refresh.lock'), staleMs: STALE_MS },
    { path: `${realFolder(folder)}.lock`, staleMs: STALE_MS },
  ]
}

function realFolder(folder: string): string {
  try {
    return realpathSync(folder)
  } catch {
    return folder
  }
}

/** A folder of its own gives the item a name of its own. */
function itemOf(surroundings: HostEnvironment) {
  const named = surroundings.environment.CLAUDE_CONFIG_DIR
  const suffix = named ? `-${createHash('sha256').update(named).digest('hex').slice(0, 8)}` : ''
  return {
    service: `Claude Code-credentials${suffix}`,
    account: surroundings.environment.USER || 'claude-code-user',
  }
}
