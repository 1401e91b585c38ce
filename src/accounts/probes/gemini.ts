/** Gemini CLI: its file of today, then the one that earlier tools used. */
import { join } from 'node:path'
import { geminiFormat } from '../logins/gemini.ts'
import type { HostEnvironment, Probe } from '../probe-result.ts'
import { fileStamp, fileVault } from '../vaults/file-vault.ts'
import { probeProgram } from './program-login.ts'
import { configFolderOf, shortenHome } from './searched-locations.ts'

const ID = 'gemini'

export const geminiProbe: Probe = {
  name: ID,
  stamp: (surroundings) => fileStamp(pathsIn(surroundings), surroundings.nowMs()),
  places: (surroundings) => pathsIn(surroundings).map((path) => shortenHome(surroundings, path)),
  probe: (surroundings, until) =>
    probeProgram(
      {
        id: ID,
        family: 'gemini',
        baseUrl: 'https://cloudcode-pa.googleapis.com/v1internal',
        places: pathsIn(surroundings).map((path) => fileVault(path, shortenHome(surroundings, path))),
        format: geminiFormat,
        // It takes no lock while it refreshes, and its issuer does not rotate refresh tokens.
        locks: [],
      },
      surroundings,
      until,
    ),
}

function pathsIn(surroundings: HostEnvironment): readonly string[] {
  const home = configFolderOf(surroundings, 'GEMINI_CLI_HOME', [])
  const config = configFolderOf(surroundings, 'XDG_CONFIG_HOME', ['.config'])
  return [join(home, '.gemini', 'oauth_creds.json'), join(config, 'gemini', 'credentials.json')]
}
