/** Whether only root and the user can have put a file where it is, and only they can replace it. */
import { type BigIntStats, existsSync, lstatSync, readFileSync, readlinkSync, statSync } from 'node:fs'
import { userInfo } from 'node:os'
import { dirname, join, resolve, sep } from 'node:path'

/** Of group and others. */
const GROUP_WRITES = 0o020n
const OTHERS_WRITE = 0o002n
/** In such a folder each entry can be replaced only by its owner. */
const STICKY = 0o1000n
/** As the kernel follows at most. */
const MAX_LINKS = 40

/** `root`: the user does not count. That is the rule for programs that isolation rests on. */
export type Owners = 'root' | 'root-or-user'

export interface TrustedPath {
  /** Without any link in it. */
  readonly real: string
  /** Where each link on the way lies, and then the file itself. A user who can write one of these folders chooses the file. */
  readonly locations: readonly string[]
  readonly stats: BigIntStats
}

/**
 * Walks to a path link by link. Undefined unless every folder on the way, every link and the file itself belong to root or the
 * user, and nobody else can write them.
 *
 * A folder that others can write counts when it is sticky, as `/tmp` is: what lies in it belongs to root or the user, so nobody
 * else can replace it. An access control list that lets somebody write shows as a group that can write, so it is refused. A
 * group that can write counts only when it is the user's private one.
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
      // Its own mode says nothing. Its owner does: in a sticky folder anybody can make one.
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

/** Whether a path, or a folder above it, is one of these folders: also by another name, as a bind mount gives it. */
export function liesIn(path: string, folders: readonly string[]): string | undefined {
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

/** Of macOS: its members become root with their own password. Homebrew gives its folders to it. */
const MACOS_ADMINS = 80

/** The user's main group, which by this machine's own files nobody else is in. */
function isPrivateGroup(gid: number): boolean {
  if (process.platform === 'darwin' && gid === MACOS_ADMINS) return true
  const user = userNow()
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

function userNow(): { readonly username: string; readonly gid: number } | undefined {
  try {
    return userInfo()
  } catch {
    return undefined
  }
}
