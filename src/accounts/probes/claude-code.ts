/** Claude Code: its credentials file, then the macOS keychain. */
import { createHash } from 'node:crypto'
import { realpathSync } from 'node:fs'
import { join } from 'node:path'
import { BASE_URLS } from '../api-keys.ts'
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
    const { platform } = hostEnvironment
    const searchedLocations = [fileVault(path, shortenHome(hostEnvironment, path))]
    if (platform === 'darwin') searchedLocations.push(keychainVault(itemOf(hostEnvironment), hostEnvironment))
    const format = claudeCodeFormat
    const locks = locksIn(hostEnvironment)
    return probeProgram(
      {
        id: ID,
        family: 'anthropic',
        baseUrl: BASE_URLS.anthropic,
        searchedLocations: searchedLocations,
        format,
        locks,
      },
      hostEnvironment,
      until,
    )
  },
}

function folderIn(hostEnvironment: HostEnvironment): string {
  return configFolderOf(hostEnvironment, 'CLAUDE_CONFIG_DIR', ['.claude'])
}

function pathIn(hostEnvironment: HostEnvironment): string {
  return join(folderIn(hostEnvironment), '.credentials.json')
}

/**
 * Returns both lock folders that the program creates while it refreshes: the present one and that of earlier releases.
 */
function locksIn(hostEnvironment: HostEnvironment): readonly ProgramLock[] {
  const folder = folderIn(hostEnvironment)
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

/** A custom config folder changes the name of the keychain item. */
function itemOf(hostEnvironment: HostEnvironment) {
  const named = hostEnvironment.environment.CLAUDE_CONFIG_DIR
  const suffix = named ? `-${createHash('sha256').update(named).digest('hex').slice(0, 8)}` : ''
  return {
    service: `Claude Code-credentials${suffix}`,
    account: hostEnvironment.environment.USER || 'claude-code-user',
  }
}
