/** Decides which host folder a sandbox may see, and which folders in it stay covered. */
import { userInfo } from 'node:os'
import { dirname, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { CraikError } from '../../../errors.ts'
import { packageFile } from '../../../lib/package-files.ts'
import { userCache } from '../../../lib/user-cache.ts'
import type { HostUser } from '../../backend.ts'
import { symbolicLinkError } from '../../workspace-path.ts'
import { folderIdentity, inspectFolder } from './inspect-folder.ts'

/** Neither these folders nor anything in them can be a workspace. */
const NEVER_INSIDE = ['/boot', '/dev', '/etc', '/proc', '/run', '/sys', '/var/run']
/** These folders themselves cannot be a workspace. A project may be below them. */
const NEVER_ITSELF = [
  '/bin',
  '/home',
  '/lib',
  '/lib32',
  '/lib64',
  '/libx32',
  '/media',
  '/mnt',
  '/opt',
  '/root',
  '/sbin',
  '/srv',
  '/tmp',
  '/usr',
  '/usr/bin',
  '/usr/lib',
  '/usr/local',
  '/usr/sbin',
  '/usr/share',
  '/var',
  '/var/lib',
  '/var/tmp',
  '/Users',
]

export interface ProjectFolder {
  readonly folder: string
  /** Folders in it that no program in the sandbox may see, relative to it. */
  readonly covered: readonly string[]
}

/** `folder` is the requested path, and contains no symbolic link. */
export interface Workspace extends ProjectFolder {
  /** Distinguishes the folder from another one that replaced it, as `device:inode`. */
  readonly identity: string
  readonly owner: HostUser
}

/**
 * Refuses a folder that contains more than a project (the system, a home, the Craik home), and a folder behind a link.
 */
export function resolveWorkspace(
  requested: string,
  craikHome: string,
  environment: NodeJS.ProcessEnv,
  what = 'the workspace',
): Workspace {
  const refusal = (why: string) => folderRefusedError(what, why)
  const seen = inspectFolder(requested)
  if (seen === undefined) throw refusal('cannot be opened as a folder')
  const { path: folder, stats } = seen
  const own = realFolder(craikHome) ?? craikHome
  if (contains(own, folder)) throw refusal('is inside Craik’s own home')
  if (NEVER_INSIDE.some((system) => contains(system, folder)) || NEVER_ITSELF.includes(folder)) {
    throw refusal('is a system folder')
  }
  const homes = [environment.HOME, passwdHome()].flatMap((home) => (home && realFolder(home)) || [])
  // A folder that contains a home contains its keys. The root folder is an example.
  if (folder === '/' || homes.some((home) => contains(folder, home))) {
    throw refusal('is or contains a home folder')
  }
  const cache = userCache(environment)
  // The host executes the cache's content. The cache may not exist yet, so its configured path counts too.
  if ([cache, realFolder(cache) ?? cache].some((one) => contains(one, folder) || contains(folder, one)))
    throw refusal('is, contains or is inside Craik’s cache folder')
  // Compares with the result of the same read, because the name could lead elsewhere at a second one.
  if (folder !== requested) throw symbolicLinkError(what)
  const covered = contains(folder, own) && realFolder(craikHome) !== undefined ? [relative(folder, own)] : []
  const owner = { uid: Number(stats.uid), gid: Number(stats.gid) }
  return { folder, identity: folderIdentity(stats), owner, covered }
}

/**
 * Returns whether a folder contains programs that run Craik: its package, or Node. A program that can write there would
 * run on the host with the next command. So no sandbox gets a folder that is or contains one of them, or a folder in
 * the package.
 */
export function overlapsCraikPrograms(folder: string): boolean {
  const program = realFolder(fileURLToPath(packageFile('.')))
  const node = realFolder(dirname(process.execPath))
  return [program, node].some(
    (own) => own !== undefined && (contains(folder, own) || (own === program && contains(own, folder))),
  )
}

/** Resolves a folder that is mounted read-only, by the same rules. `at` names the mount in errors. */
export function resolveMount(
  requested: string,
  at: string,
  { craikHome, environment }: { readonly craikHome: string; readonly environment: NodeJS.ProcessEnv },
): Pick<Workspace, 'folder' | 'identity'> {
  const what = `the folder for ${at}`
  const { folder, identity, covered } = resolveWorkspace(requested, craikHome, environment, what)
  if (covered.length > 0) throw folderRefusedError(what, 'contains Craik’s own home')
  return { folder, identity }
}

function folderRefusedError(what: string, why: string): CraikError {
  return new CraikError('usage', `${what} ${why}`, {
    hint: 'choose a project folder, such as a repository',
  })
}

function realFolder(path: string): string | undefined {
  return inspectFolder(path)?.path
}

/** Returns whether `inner` is `outer` or is in it. Both paths contain no links. */
function contains(outer: string, inner: string): boolean {
  const way = relative(outer, inner)
  return way === '' || (way !== '..' && !way.startsWith(`..${sep}`))
}

function passwdHome(): string | undefined {
  try {
    return userInfo().homedir
  } catch {
    return undefined
  }
}
