/**
 * The user's cache folder, where Craik keeps everything that it executes: compiled code, the runtime of sandboxes and
 * the packages of agents. A Craik home contains only data, so a home that was copied or received from others executes
 * nothing.
 */
import { createHash } from 'node:crypto'
import { existsSync, lstatSync, mkdirSync, realpathSync, statSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, isAbsolute, join, resolve } from 'node:path'
import { CraikError } from '../errors.ts'
import { quoteArgument } from './shlex.ts'

const STICKY = 0o1000
const WRITABLE_BY_OTHERS = 0o022
const ELSEWHERE = 'set XDG_CACHE_HOME to a folder of your own'

/** Returns the path of `craik` in `XDG_CACHE_HOME`, or in the usual cache folder of the system. Creates nothing. */
export function userCache(environment: NodeJS.ProcessEnv): string {
  const { XDG_CACHE_HOME: chosen = '', HOME: home = '' } = environment
  // The XDG specification says to ignore a relative path.
  if (isAbsolute(chosen)) return join(chosen, 'craik')
  const usual = process.platform === 'darwin' ? 'Library/Caches' : '.cache'
  return join(isAbsolute(home) ? home : homedir(), usual, 'craik')
}

/**
 * Returns the part of the cache that belongs to one Craik home. The files that its sandboxes need stay when another
 * home is pruned.
 */
export function cacheOfHome(craikHome: string, environment: NodeJS.ProcessEnv): string {
  const digest = createHash('sha256').update(realPath(craikHome)).digest('hex')
  return join(userCache(environment), 'homes', digest.slice(0, 16))
}

/**
 * Creates the user's cache folder with mode 0700, or checks the one that exists. It must not be a symbolic link, and it
 * must be private and owned by this user. Each folder above it must belong to root or this user, and nobody else may be
 * able to write to it.
 */
export function ensureUserCache(environment: NodeJS.ProcessEnv): string {
  const folder = userCache(environment)
  if (isInProject(folder, environment.HOME ?? homedir()))
    throw exposedError(folder, 'is in a project, where a sandbox could write', ELSEWHERE)
  // This check comes first, so that nothing is created in a folder of another user.
  requireSafeFolders(nearestFolder(dirname(folder)))
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    throw new CraikError('home_unwritable', `cannot create the cache folder ${folder} (${code})`, {
      hint: ELSEWHERE,
      cause,
    })
  }
  const found = lstatSync(folder)
  if (!found.isDirectory()) throw exposedError(folder, 'is not a folder', ELSEWHERE)
  if (found.uid !== process.geteuid?.())
    throw exposedError(folder, `belongs to another user (uid ${found.uid})`, ELSEWHERE)
  if ((found.mode & 0o077) !== 0)
    throw exposedError(folder, 'is open to other users', `remove it:  rm -r ${quoteArgument(folder)}`)
  return folder
}

/**
 * Tools such as direnv can move the cache into a project, which a sandbox may have mounted in place. A project is a
 * folder with `.git`, or the one that the command runs in. The home folder and the folders above it are not projects.
 */
function isInProject(folder: string, home: string): boolean {
  const [own, here] = [realPath(home), workingFolder()]
  for (const start of new Set([folder, realPath(nearestFolder(dirname(folder)))])) {
    for (let above = start; above !== dirname(above); above = dirname(above)) {
      if (own === above || own.startsWith(`${above}/`)) break
      if (above === here || existsSync(join(above, '.git'))) return true
    }
  }
  return false
}

/** Returns `undefined` when the working folder was removed. */
function workingFolder(): string | undefined {
  try {
    return realPath(process.cwd())
  } catch {
    return undefined
  }
}

/** Checks the path as written and its real path, because a link in either could be replaced. */
function requireSafeFolders(folder: string): void {
  for (const start of new Set([folder, realpathSync(folder)])) {
    for (let above = start; ; above = dirname(above)) {
      const { uid, mode } = statSync(above)
      if (uid !== 0 && uid !== process.geteuid?.())
        throw exposedError(above, `belongs to another user (uid ${uid})`, ELSEWHERE)
      // In a sticky folder such as /tmp, others cannot replace what belongs to this user.
      if ((mode & WRITABLE_BY_OTHERS) !== 0 && (mode & STICKY) === 0)
        throw exposedError(above, 'is writable by other users', `chmod go-w ${quoteArgument(above)}`)
      if (above === dirname(above)) break
    }
  }
}

function nearestFolder(path: string): string {
  return statSync(path, { throwIfNoEntry: false }) !== undefined || dirname(path) === path
    ? path
    : nearestFolder(dirname(path))
}

/** Creates the part of the cache that belongs to one Craik home, after the same checks. */
export function ensureCacheOfHome(craikHome: string, environment: NodeJS.ProcessEnv): string {
  ensureUserCache(environment)
  const folder = cacheOfHome(craikHome, environment)
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  return folder
}

function exposedError(folder: string, problem: string, hint: string): CraikError {
  return new CraikError('key_exposed', `the cache folder must be private: ${folder} ${problem}`, { hint })
}

/** Resolves links, also for a path that does not exist yet. */
function realPath(path: string): string {
  const absolute = resolve(path)
  try {
    return realpathSync(absolute)
  } catch {
    const above = dirname(absolute)
    return above === absolute ? absolute : join(realPath(above), absolute.slice(above.length))
  }
}
