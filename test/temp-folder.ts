/** Folders of one test file. They are gone when it ends, also those of tests that ran out of time to remove them. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const made = new Set<string>()
// For a script that a test started. Of a test file, test/remove-folders.ts does it: the pool ends workers by force.
process.once('exit', removeTempFolders)

export function tempFolder(prefix: string): string {
  const folder = mkdtempSync(join(tmpdir(), prefix))
  made.add(folder)
  return folder
}

export function removeTempFolders(): void {
  for (const folder of made) rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  made.clear()
}
