/**
 * An agent's command line as sandboxes see it: a folder of programs that is shown to them read-only. Which there are and
 * how they are made is not known here; an id says all that goes into one. npm comes in the same way.
 */
import { constants } from 'node:fs'
import { access } from 'node:fs/promises'
import { join } from 'node:path'
import { CraikError } from '../errors.ts'
import { cacheOfHome } from '../lib/user-cache.ts'
import { INSIDE } from '../sidecar/protocol.ts'

/** Such as `codex-0.166.0-0123456789ab`: its name, its version, the beginning of a digest of what it is made of. */
const ID = /^([a-z]+(?:-[a-z]+)*)-([0-9][0-9A-Za-z.]{0,40})-([0-9a-f]{12})$/
export const HARNESS_NAME = /^[a-z]+(?:-[a-z]+){0,4}$/
export const MAX_HARNESSES = 16

/** Those that no agent is: they are in every image of Craik's own, and come along with every agent. */
export const TOOL_NAMES = ['npm'] as const

/** What this build of Craik knows of them. */
export interface HarnessStore {
  /**
   * The ids that it makes them under, the tools first, in an order that does not depend on that of the names. Without a
   * name the tools alone. Throws for an unknown name.
   */
  ids(names: readonly string[]): readonly string[]
}

/** Of these ids, the agents'. */
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

/** Whose packages: those of a home, in the cache of the user whose environment it is. */
export interface PackageOwner {
  readonly craikHome: string
  readonly environment: NodeJS.ProcessEnv
}

/** Where all of them lie, outside the home. Others than its owner get there only through a mount. */
export function harnessesFolder({ craikHome, environment }: PackageOwner): string {
  return join(cacheOfHome(craikHome, environment), 'harnesses')
}

/** What is there has its name since it was whole. */
export const HARNESS_MANIFEST = 'harness-manifest.json'

export function harnessInside(id: string): string {
  return `${INSIDE.harnesses}/${harnessName(id)}`
}

/** Its folder. */
export async function requireInstalledHarness(owner: PackageOwner, id: string): Promise<string> {
  await requireHarnesses(owner, [id])
  return join(harnessesFolder(owner), id)
}

/** That each can be shown. */
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
