/** Kimi Code: the login for its own service. A login for another address has another file name, and is not probed. */
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { BASE_URLS } from '../api-keys.ts'
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
  stamp: (hostEnvironment) =>
    fileStamp([pathIn(hostEnvironment), markerIn(hostEnvironment)], hostEnvironment.nowMs()),
  searchedLocations: (hostEnvironment) => [shortenHome(hostEnvironment, pathIn(hostEnvironment))],
  probe(hostEnvironment, until) {
    const path = pathIn(hostEnvironment)
    const folder = folderIn(hostEnvironment)
    const vault = unlessRemoved(
      fileVault(path, shortenHome(hostEnvironment, path)),
      markerIn(hostEnvironment),
    )
    return probeProgram(
      {
        id: ID,
        family: 'kimi',
        baseUrl: BASE_URLS.kimi,
        format: kimiFormat,
        searchedLocations: [vault],
        // The lock of the refresh, and the lock of the file.
        locks: [
          { path: join(folder, 'oauth', `${NAME}.lock`), staleMs: STALE_MS },
          { path: join(folder, 'credentials', `${NAME}.lock-target.lock`), staleMs: STALE_MS },
        ],
      },
      hostEnvironment,
      until,
    )
  },
}

function folderIn(hostEnvironment: HostEnvironment): string {
  return configFolderOf(hostEnvironment, 'KIMI_CODE_HOME', ['.kimi-code'])
}

function pathIn(hostEnvironment: HostEnvironment): string {
  return join(folderIn(hostEnvironment), 'credentials', `${NAME}.json`)
}

function markerIn(hostEnvironment: HostEnvironment): string {
  return join(folderIn(hostEnvironment), 'credentials', `${NAME}.removed`)
}

/** A logout writes a marker with the digest of the login file. A file with that digest counts as removed. */
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
