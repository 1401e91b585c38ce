/** Folders of one test file. They are gone when it ends, also those of tests that ran out of time to remove them. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll } from 'vitest'

/** Of the file that imports this: each has its own modules. */
const made = new Set<string>()
const removeAll = () => {
  for (const folder of made) rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
}
try {
  // Not when the worker exits: the pool ends workers by force.
  afterAll(removeAll)
} catch {
  // A script that a test started is no suite; it ends by itself.
  process.once('exit', removeAll)
}

export function tempFolder(prefix: string): string {
  const folder = mkdtempSync(join(tmpdir(), prefix))
  made.add(folder)
  return folder
}
