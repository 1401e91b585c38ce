/** Applies the rule for files that leave a sandbox to the destination of `craik sandbox cp`. */
import { realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { CraikError } from '../../errors.ts'
import type { HoldBack } from '../../lib/safe-tar/unpack.ts'
import { userCache } from '../../lib/user-cache.ts'
import {
  findHeldBack,
  findHeldBackFolder,
  findHeldBackPrefix,
  isRepository,
} from '../../sandboxes/unsafe-paths.ts'
import type { CliContext } from '../context.ts'
import { printable } from '../output.ts'
import type { LocalDestination } from './local-file.ts'

/**
 * Refuses a destination that programs on the host run or trust. It checks the name of the copy and every folder above
 * it, by their real names. Returns the rule for everything below that name.
 */
export async function requireSafe(
  { folder, name }: LocalDestination,
  { home, environment }: Pick<CliContext, 'home' | 'environment'>,
): Promise<HoldBack> {
  // On Linux this is the open folder itself, even if its path leads elsewhere by now.
  const at = join(await realpath(folder.path), name)
  const own = await Promise.all(
    [home.root, userCache(environment)].map((path) => realpath(path).catch(() => path)),
  )
  const isOwn = (path: string) => own.some((one) => `${path}/`.startsWith(`${one}/`))
  const held =
    (isOwn(at) ? { reason: 'it belongs to Craik' } : undefined) ??
    (name === '.' ? undefined : findHeldBack(name)) ??
    (await findHeldBackFolder(at))
  if (held !== undefined)
    throw new CraikError('held_back', `held back ${printable(at)}: ${held.reason}`, {
      hint: 'review the files in the sandbox; to write them anyway, add --include-unsafe (nothing was written)',
    })
  return {
    entry(path, linkTarget) {
      if (isOwn(join(at, path))) return path
      return findHeldBack(path, linkTarget) === undefined ? undefined : findHeldBackPrefix(path)
    },
    folder: (existing) => isRepository(existing.path),
  }
}
