/** Programs that isolation rests on: only the system's own, which nobody but root can have put there. */
import { accessSync, constants, realpathSync, statSync } from 'node:fs'
import { delimiter, dirname, join, resolve } from 'node:path'

/**
 * PATH belongs to whoever started us: a package manager puts folders of the project before all others. So it may hide
 * these folders, and name no other.
 */
const SYSTEM_FOLDERS = new Set([
  ...['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin'],
  '/run/current-system/sw/bin',
])

/** Of group and others. */
const WRITABLE = 0o022
/** In such a folder each file can be replaced only by its owner. */
const STICKY = 0o1000

/** Where a program really is, without links; undefined when no system folder on the path holds one to be trusted. */
export function findSystemProgram(name: string, path = ''): string | undefined {
  return path
    .split(delimiter)
    .filter((folder) => folder.startsWith('/') && SYSTEM_FOLDERS.has(resolve(folder)))
    .flatMap((folder) => trustedProgram(join(folder, name)) ?? [])[0]
}

/** The real path of a program that only root can replace: it, and every folder on the way to it, is root's. */
export function trustedProgram(path: string): string | undefined {
  try {
    const real = realpathSync(path)
    accessSync(real, constants.X_OK)
    const { uid, mode } = statSync(real)
    const isSafe = statSync(real).isFile() && uid === 0 && (mode & WRITABLE) === 0
    return isSafe && isSafeFolder(dirname(real)) ? real : undefined
  } catch {
    return undefined
  }
}

function isSafeFolder(folder: string): boolean {
  const { uid, mode } = statSync(folder)
  if (uid !== 0 || ((mode & WRITABLE) !== 0 && (mode & STICKY) === 0)) return false
  return folder === '/' || isSafeFolder(dirname(folder))
}
