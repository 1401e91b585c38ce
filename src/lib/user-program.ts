/** Finds a program of the user's by its name, as an absolute path: never in the folder where craik happens to stand. */
import { constants } from 'node:fs'
import { access, stat } from 'node:fs/promises'
import { delimiter, isAbsolute, join } from 'node:path'

export async function findUserProgram(
  name: string,
  environment: NodeJS.ProcessEnv,
): Promise<string | undefined> {
  for (const folder of (environment.PATH ?? '').split(delimiter)) {
    if (!isAbsolute(folder)) continue
    const path = join(folder, name)
    try {
      await access(path, constants.X_OK)
      if ((await stat(path)).isFile()) return path
    } catch {
      // Not in this folder.
    }
  }
  return undefined
}
