/** What all processes of one run of the tests share: a folder that is gone afterwards, and in it compiled code. */
import { chmodSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Before the first worker: whatever starts later inherits it. Each project asks for it; the first one makes it. */
export default function setup(): (() => void) | undefined {
  if (process.env.CRAIK_TEST_RUN_FOLDER !== undefined) return undefined
  const folder = mkdtempSync(join(tmpdir(), 'craik-tests-'))
  const cache = join(folder, 'compile-cache')
  mkdirSync(cache)
  chmodSync(folder, 0o755)
  // Tests run as several users. Node keeps a folder for each of them, and only its owner can change it.
  chmodSync(cache, 0o1777)
  process.env.CRAIK_TEST_RUN_FOLDER = folder
  process.env.NODE_COMPILE_CACHE = cache
  // What tests run within themselves keeps to the folder of this run.
  process.env.XDG_CACHE_HOME = join(folder, 'user-cache')
  return () => rmSync(folder, { recursive: true, force: true })
}
