/**
 * Creates the folder that all processes of one test run share. It contains compiled code, and is removed after the run.
 */
import { chmodSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/**
 * Runs before the first worker, so that all later processes inherit the variables. Every project calls it, and only the
 * first call creates the folder.
 */
export default function setup(): (() => void) | undefined {
  if (process.env.CRAIK_TEST_RUN_FOLDER !== undefined) return undefined
  const folder = mkdtempSync(join(tmpdir(), 'craik-tests-'))
  const cache = join(folder, 'compile-cache')
  mkdirSync(cache)
  chmodSync(folder, 0o755)
  // Tests run as several users. Node creates a folder for each user, which only that user can change.
  chmodSync(cache, 0o1777)
  process.env.CRAIK_TEST_RUN_FOLDER = folder
  process.env.NODE_COMPILE_CACHE = cache
  // Programs that the tests run in their own process use a cache in this folder.
  process.env.XDG_CACHE_HOME = join(folder, 'user-cache')
  return () => rmSync(folder, { recursive: true, force: true })
}
