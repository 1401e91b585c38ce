/**
 * The user's cache folder, where Craik keeps everything that it executes: compiled code, the sandboxes' runtime and the
 * agents' packages. A Craik home holds data only, so that a home that somebody copied or sent runs nothing.
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

/** `craik` in `XDG_CACHE_HOME`, or in the usual folder of the system. Names a path only; creates nothing. */
export function userCache(environment: NodeJS.ProcessEnv): string {
  const { XDG_CACHE_HOME: chosen = '', HOME: home = '' } = environment
  // As the XDG specification says, a relative path does not count.
  if (isAbsolute(chosen)) return join(chosen, 'craik')
  const usual = process.platform === 'darwin' ? 'Library/Caches' : '.cache'
  return join(isAbsolute(home) ? home : homedir(), usual, 'craik')
}

/** The part of the cache that belongs to one home: what its sandboxes need stays when another home is pruned. */
export function cacheOfHome(craikHome: string, environment: NodeJS.ProcessEnv): string {
  const digest = createHash('sha256').update(realPath(craikHome)).digest('hex')
  return join(userCache(environment), 'homes', digest.slice(0, 16))
}

/**
 * Creates the user's cache folder with mode 0700, or checks the one that exists: no symbolic link, owned by this user and
 * private. Each folder above it must belong to root or this user, and nobody else may write it.
 */
export function ensureUserCache(environment: NodeJS.ProcessEnv): string {
  const folder = userCache(environment)
  if (isInProject(folder, environment.HOME ?? homedir()))
    throw exposedError(folder, 'is in a project, where a sandbox could write', ELSEWHERE)
  // First, so that nothing is created in a folder of another user.
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
 * direnv and the like can move the cache into a project, which a sandbox may have in place. A project is a folder with `.git`,
 * or the one that the command runs in; the home folder and those above it are none.
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

/** Undefined: it was removed. */
function workingFolder(): string | undefined {
  try {
    return realPath(process.cwd())
  } catch {
    return undefined
  }
}

/** As the path is written and as it really is: a link on the way could be exchanged in either. */
function requireSafeFolders(folder: string): void {
  for (const start of new Set([folder, realpathSync(folder)])) {
    for (let above = start; ; above = dirname(above)) {
      const { uid, mode } = statSync(above)
      if (uid !== 0 && uid !== process.geteuid?.())
        throw exposedError(above, `belongs to another user (uid ${uid})`, ELSEWHERE)
      // In a sticky folder such as /tmp, others cannot exchange what belongs to this user.
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

/** The same for the part of one home. */
export function ensureCacheOfHome(craikHome: string, environment: NodeJS.ProcessEnv): string {
  ensureUserCache(environment)
  const folder = cacheOfHome(craikHome, environment)
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  return folder
}

function exposedError(folder: string, problem: string, hint: string): CraikError {
  return new CraikError('key_exposed', `the cache folder must be private: ${folder} ${problem}`, { hint })
}

/** Also of what does not exist yet. */
function realPath(path: string): string {
  const absolute = resolve(path)
  try {
    return realpathSync(absolute)
  } catch {
    const above = dirname(absolute)
    return above === absolute ? absolute : join(realPath(above), absolute.slice(above.length))
  }
}
