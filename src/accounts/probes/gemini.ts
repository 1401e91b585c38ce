/** Gemini CLI: its present file, then the file that earlier tools used. */
import { join } from 'node:path'
import { geminiFormat } from '../logins/gemini.ts'
import type { HostEnvironment, Probe } from '../probe-result.ts'
import { fileStamp, fileVault } from '../vaults/file-vault.ts'
import { probeProgram } from './program-login.ts'
import { configFolderOf, shortenHome } from './searched-locations.ts'

const ID = 'gemini'

export const geminiProbe: Probe = {
  name: ID,
  stamp: (hostEnvironment) => fileStamp(pathsIn(hostEnvironment), hostEnvironment.nowMs()),
  searchedLocations: (hostEnvironment) =>
    pathsIn(hostEnvironment).map((path) => shortenHome(hostEnvironment, path)),
  probe: (hostEnvironment, until) =>
    probeProgram(
      {
        id: ID,
        family: 'gemini',
        baseUrl: 'https://cloudcode-pa.googleapis.com/v1internal',
        searchedLocations: pathsIn(hostEnvironment).map((path) =>
          fileVault(path, shortenHome(hostEnvironment, path)),
        ),
        format: geminiFormat,
        // Gemini CLI takes no lock while it refreshes, and its issuer does not rotate refresh tokens.
        locks: [],
      },
      hostEnvironment,
      until,
    ),
}

function pathsIn(hostEnvironment: HostEnvironment): readonly string[] {
  const home = configFolderOf(hostEnvironment, 'GEMINI_CLI_HOME', [])
  const config = configFolderOf(hostEnvironment, 'XDG_CONFIG_HOME', ['.config'])
  return [join(home, '.gemini', 'oauth_creds.json'), join(config, 'gemini', 'credentials.json')]
}
