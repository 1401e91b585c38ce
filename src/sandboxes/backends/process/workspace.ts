/** Which folder of the host a sandbox may see, and what inside it stays covered. */
import { userInfo } from 'node:os'
import { dirname, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { CraikError } from '../../../errors.ts'
import { packageFile } from '../../../lib/package-files.ts'
import { userCache } from '../../../lib/user-cache.ts'
import type { HostUser } from '../../backend.ts'
import { throughLink } from '../../workspace-path.ts'
import { folderIdentity, inspectFolder } from './inspect-folder.ts'

/** Neither these nor anything in them. */
const NEVER_INSIDE = ['/boot', '/dev', '/etc', '/proc', '/run', '/sys', '/var/run']
/** Not these themselves; a project may well lie below. */
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
  /** Folders in it that nothing inside may see, relative to it. */
  readonly covered: readonly string[]
}

/** `folder` is as it was asked for, and without any link in it. */
export interface Workspace extends ProjectFolder {
  /** What tells it from another folder put in its place, as `device:inode`. */
  readonly identity: string
  readonly owner: HostUser
}

/** Refuses a folder that holds more than a project (the system, a home, Craik's own), and one behind a link. */
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
  // What holds a home holds its keys: the root folder, for one.
  if (folder === '/' || homes.some((home) => contains(folder, home))) {
    throw refusal('is or contains a home folder')
  }
  const cache = userCache(environment)
  // What is in it runs on the host. It may not exist yet, so its own name counts too.
  if ([cache, realFolder(cache) ?? cache].some((one) => contains(one, folder) || contains(folder, one)))
    throw refusal('is, contains or is inside Craik’s cache folder')
  // Of the same look: asked again, the name may lead elsewhere.
  if (folder !== requested) throw throughLink(what)
  const covered = contains(folder, own) && realFolder(craikHome) !== undefined ? [relative(folder, own)] : []
  const owner = { uid: Number(stats.uid), gid: Number(stats.gid) }
  return { folder, identity: folderIdentity(stats), owner, covered }
}

/**
 * What runs Craik on this machine is of Craik's own folder: whoever can write there runs on the host with the next command. So
 * no sandbox is lent a folder that is it, holds it or lies in it.
 */
export function isOfCraik(folder: string): boolean {
  const program = realFolder(fileURLToPath(packageFile('.')))
  const node = realFolder(dirname(process.execPath))
  return [program, node].some(
    (own) => own !== undefined && (contains(folder, own) || (own === program && contains(own, folder))),
  )
}

/** A folder that is only to be read, by the same rules; `at` is how a refusal tells which. */
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

/** Whether `inner` is `outer` or lies in it; both without links. */
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
