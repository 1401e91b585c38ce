/**
 * Finds files that ship with the code, starting at the package's root. It works wherever a bundler put the code itself.
 */
import { existsSync } from 'node:fs'

/** `path` is relative to the folder that holds Craik's package.json. */
export function packageFile(path: string): URL {
  let folder = new URL('.', import.meta.url)
  while (!existsSync(new URL('package.json', folder))) {
    const parent = new URL('..', folder)
    if (parent.href === folder.href) throw new Error('the package.json of craik is missing')
    folder = parent
  }
  return new URL(path, folder)
}
