/** Creates temporary folders for one test file. They are removed when it ends, even after a timeout. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const made = new Set<string>()
// For scripts that a test starts. For a test file, test/remove-folders.ts removes the folders, because the pool kills
// its workers.
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
