/** Kimi Code: the login for its own service. One for another address lies under another name, and is not looked for. */
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { BASE_URLS } from '../keys.ts'
import { kimiFormat } from '../logins/kimi.ts'
import type { HostEnvironment, Probe } from '../probe-result.ts'
import { fileStamp, fileVault } from '../vaults/file-vault.ts'
import type { Vault } from '../vaults/vault.ts'
import { probeProgram } from './program-login.ts'
import { configFolderOf, shortenHome } from './searched-locations.ts'

const ID = 'kimi'
const NAME = 'kimi-code'
const STALE_MS = 5_000

export const kimiProbe: Probe = {
  name: ID,
  stamp: (surroundings) => fileStamp([pathIn(surroundings), markerIn(surroundings)], surroundings.nowMs()),
  places: (surroundings) => [shortenHome(surroundings, pathIn(surroundings))],
  probe(surroundings, until) {
    const path = pathIn(surroundings)
    const folder = folderIn(surroundings)
    const vault = unlessRemoved(fileVault(path, shortenHome(surroundings, path)), markerIn(surroundings))
    return probeProgram(
      {
        id: ID,
        family: 'kimi',
        baseUrl: BASE_URLS.kimi,
        format: kimiFormat,
        places: [vault],
        // The lock of its refresh, and that of its file.
        locks: [
          { path: join(folder, 'oauth', `${NAME}.lock`), staleMs: STALE_MS },
          { path: join(folder, 'credentials', `${NAME}.lock-target.lock`), staleMs: STALE_MS },
        ],
      },
      surroundings,
      until,
    )
  },
}

function folderIn(surroundings: HostEnvironment): string {
  return configFolderOf(surroundings, 'KIMI_CODE_HOME', ['.kimi-code'])
}

function pathIn(surroundings: HostEnvironment): string {
  return join(folderIn(surroundings), 'credentials', `${NAME}.json`)
}

function markerIn(surroundings: HostEnvironment): string {
  return join(folderIn(surroundings), 'credentials', `${NAME}.removed`)
}

/** A logout leaves a mark with the digest of the file that it is about; that file does not count any more. */
function unlessRemoved(vault: Vault, marker: string): Vault {
  return {
    ...vault,
    async read(until) {
      const snapshot = await vault.read(until)
      if (snapshot === undefined) return undefined
      const mark = await readFile(marker, { encoding: 'utf8' }).catch(() => '')
      const digest = createHash('sha256').update(snapshot.text).digest('hex')
      return mark.includes(digest) ? undefined : snapshot
    },
  }
}
