/**
 * A harness package is a folder of programs that is mounted read-only in sandboxes. Its id identifies everything in it.
 * This module does not define which packages exist or how they are built. npm is packaged in the same way.
 */
import { constants } from 'node:fs'
import { access } from 'node:fs/promises'
import { join } from 'node:path'
import { CraikError } from '../errors.ts'
import { cacheOfHome } from '../lib/user-cache.ts'
import { INSIDE } from '../sidecar/protocol.ts'

/** Such as `codex-0.166.0-0123456789ab`: the name, the version, and the beginning of a digest of its inputs. */
const ID = /^([a-z]+(?:-[a-z]+)*)-([0-9][0-9A-Za-z.]{0,40})-([0-9a-f]{12})$/
export const HARNESS_NAME = /^[a-z]+(?:-[a-z]+){0,4}$/
export const MAX_HARNESSES = 16

/** Packages that are not agents. They are in every image of Craik, and accompany every agent. */
export const TOOL_NAMES = ['npm'] as const

/** The packages that this build of Craik can install. */
export interface HarnessStore {
  /**
   * Returns the ids of these packages, tools first. The order does not depend on that of the names. Without a name,
   * returns only the tools. Throws for an unknown name.
   */
  ids(names: readonly string[]): readonly string[]
}

/** Returns the ids that belong to agents. */
export function agentsOf(ids: readonly string[]): readonly string[] {
  return ids.filter((id) => !TOOL_NAMES.some((tool) => tool === harnessName(id)))
}

export function isHarnessId(id: string): boolean {
  return id.length <= 120 && ID.test(id)
}

export function harnessName(id: string): string {
  return ID.exec(id)![1]!
}

export function harnessVersion(id: string): string {
  return ID.exec(id)![2]!
}

/** The owner of packages: a home, with the cache of the user whose environment this is. */
export interface PackageOwner {
  readonly craikHome: string
  readonly environment: NodeJS.ProcessEnv
}

/** Returns the folder of all packages, which is outside the home. Other users reach it only through a mount. */
export function harnessesFolder({ craikHome, environment }: PackageOwner): string {
  return join(cacheOfHome(craikHome, environment), 'harnesses')
}

/** Present in a package folder only if the package is complete. */
export const HARNESS_MANIFEST = 'harness-manifest.json'

export function harnessInside(id: string): string {
  return `${INSIDE.harnesses}/${harnessName(id)}`
}

/** Returns the package's folder. Throws when it is not installed. */
export async function requireInstalledHarness(owner: PackageOwner, id: string): Promise<string> {
  await requireHarnesses(owner, [id])
  return join(harnessesFolder(owner), id)
}

/** Throws when one of the packages is not installed. */
export async function requireHarnesses(owner: PackageOwner, ids: readonly string[]): Promise<void> {
  const missing: string[] = []
  for (const id of ids)
    await access(join(harnessesFolder(owner), id, HARNESS_MANIFEST), constants.R_OK).catch(() =>
      missing.push(id),
    )
  if (missing.length === 0) return
  throw new CraikError('not_found', `${missing.join(', ')} is not installed on this machine`, {
    hint: `craik harness install ${missing.map(harnessName).join(',')}`,
    details: { missing: 'harness', harnesses: missing.map(harnessName), ids: missing },
  })
}
