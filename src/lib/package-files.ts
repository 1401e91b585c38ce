/** Files that ship beside the code, found from the package's root, wherever the code itself was put by a bundler. */
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
