/** Checks that only root and the user can have put a file where it is, and that only they can replace it. */
import { type BigIntStats, existsSync, lstatSync, readFileSync, readlinkSync, statSync } from 'node:fs'
import { userInfo } from 'node:os'
import { dirname, join, resolve, sep } from 'node:path'

/** The write permissions of the group and of others. */
const GROUP_WRITES = 0o020n
const OTHERS_WRITE = 0o002n
/** In a folder with this bit, only the owner of an entry can replace it. */
const STICKY = 0o1000n
/** The most links that the kernel follows. */
const MAX_LINKS = 40

/** `root` does not accept files of the user. It is the rule for programs that isolation depends on. */
export type Owners = 'root' | 'root-or-user'

export interface TrustedPath {
  /** The path without any link in it. */
  readonly real: string
  /**
   * The location of each link on the way, and then of the file itself. A user who can write to the folder of one of
   * these locations chooses the file.
   */
  readonly locations: readonly string[]
  readonly stats: BigIntStats
}

/**
 * Follows a path link by link. Returns `undefined` unless every folder on the way, every link and the file itself
 * belong to root or the user, and nobody else can write to them.
 *
 * A folder that others can write to is accepted when it is sticky, as `/tmp` is. Its entries on the way must belong to
 * root or the user, so nobody else can replace them. An access control list that lets another user write shows as a
 * writable group, so it is refused. A writable group is accepted only when it is the user's private one.
 */
export function resolveTrustedPath(path: string, owners: Owners): TrustedPath | undefined {
  if (!path.startsWith('/')) return undefined
  const isOwner = ({ uid }: BigIntStats) =>
    uid === 0n || (owners === 'root-or-user' && uid === BigInt(process.geteuid?.() ?? -1))
  const isClosed = ({ mode, gid }: BigIntStats) =>
    (mode & OTHERS_WRITE) === 0n &&
    ((mode & GROUP_WRITES) === 0n || (owners === 'root-or-user' && isPrivateGroup(Number(gid))))
  const isSafe = (stats: BigIntStats) =>
    isOwner(stats) && (isClosed(stats) || (stats.isDirectory() && (stats.mode & STICKY) !== 0n))
  const waiting = resolve(path).split(sep).filter(Boolean)
  const locations: string[] = []
  let at = '/'
  let stats = statPath(at)
  while (waiting.length > 0) {
    if (stats === undefined || !stats.isDirectory() || !isSafe(stats)) return undefined
    const next = join(at, waiting.shift()!)
    stats = statPath(next)
    if (stats?.isSymbolicLink()) {
      // The mode of a link means nothing, but its owner matters: in a sticky folder, any user can create a link.
      if (!isOwner(stats) || locations.push(next) > MAX_LINKS) return undefined
      const target = resolve(at, readlinkSync(next))
      waiting.unshift(...target.split(sep).filter(Boolean))
      at = '/'
      stats = statPath(at)
    } else at = next
  }
  if (stats === undefined || !isSafe(stats)) return undefined
  return { real: at, locations: [...locations, at], stats }
}

function statPath(path: string): BigIntStats | undefined {
  try {
    return lstatSync(path, { bigint: true })
  } catch {
    return undefined
  }
}

/**
 * Returns the first of these folders that is the path or contains it, or `undefined`. It recognizes a folder under
 * another name too, such as a bind mount.
 */
export function findContainingFolder(path: string, folders: readonly string[]): string | undefined {
  if (folders.length === 0) return undefined
  const known = folders.flatMap((folder) => {
    const identity = identityOf(folder)
    return identity === undefined ? [] : [{ folder, identity }]
  })
  for (let at = path; ; at = dirname(at)) {
    const byName = folders.find((folder) => resolve(folder) === at)
    if (byName !== undefined) return byName
    const identity = identityOf(at)
    const same = known.find((one) => one.identity === identity)
    if (same !== undefined) return same.folder
    if (at === dirname(at)) return undefined
  }
}

function identityOf(path: string): string | undefined {
  try {
    const { dev, ino } = statSync(path, { bigint: true })
    return `${dev}:${ino}`
  } catch {
    return undefined
  }
}

/**
 * The group `admin` of macOS. Its members become root with their own password. Homebrew gives its folders to this
 * group.
 */
const MACOS_ADMINS = 80

/**
 * Returns whether this is the user's main group, without any other member in the host's own files. The administrators
 * of macOS count too.
 */
function isPrivateGroup(gid: number): boolean {
  if (process.platform === 'darwin' && gid === MACOS_ADMINS) return true
  const user = readCurrentUser()
  if (user === undefined || user.gid !== gid || !existsSync('/etc/group')) return false
  const lines = (file: string) =>
    readFileSync(file, 'utf8')
      .split('\n')
      .map((line) => line.split(':'))
  const group = lines('/etc/group').filter((fields) => fields[2] === String(gid))
  const members = group.flatMap((fields) => (fields[3] ?? '').split(',').filter(Boolean))
  const others = lines('/etc/passwd').filter(
    (fields) => fields[3] === String(gid) && fields[0] !== user.username,
  )
  return group.length === 1 && others.length === 0 && members.every((member) => member === user.username)
}

function readCurrentUser(): { readonly username: string; readonly gid: number } | undefined {
  try {
    return userInfo()
  } catch {
    return undefined
  }
}
