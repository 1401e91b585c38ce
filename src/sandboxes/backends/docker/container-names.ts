/** Names and labels of a sandbox's objects in the engine, which say whose they are. */
import { createHash } from 'node:crypto'
import { realpathSync } from 'node:fs'
import type { SandboxId } from '../../../lib/ids.ts'

const SANDBOX_LABEL = 'craik.sandbox'
const HOME_LABEL = 'craik.home'

/** Engines refuse capital letters in some of their names. */
export function containerName(id: SandboxId): string {
  return `craik-${id.toLowerCase().replaceAll('_', '-')}`
}

/** The volume for output that does not fit in memory. Nothing needs it after the container stops. */
export const spillVolume = (id: SandboxId): string => `${containerName(id)}-spill`

/** The labels of a sandbox. The home is a digest, because a folder's path reveals who works there. */
export function labelsOf(id: SandboxId, craikHome: string): Record<string, string> {
  return { [SANDBOX_LABEL]: id, [HOME_LABEL]: homeDigest(craikHome) }
}

export function isOurs(
  labels: Readonly<Record<string, string>> | null | undefined,
  id: SandboxId,
  craikHome: string,
): boolean {
  return Object.entries(labelsOf(id, craikHome)).every(([name, value]) => labels?.[name] === value)
}

/** An engine filter for all objects of one sandbox. */
export function sandboxFilters(id: SandboxId, craikHome: string): string[] {
  return Object.entries(labelsOf(id, craikHome)).map(([name, value]) => `${name}=${value}`)
}

/** An engine filter for all objects of this home. */
export function homeFilter(craikHome: string): string {
  return `${HOME_LABEL}=${homeDigest(craikHome)}`
}

/** The repository name for the images that this home needs. */
export function homeRepository(craikHome: string): string {
  return `craik/home-${homeDigest(craikHome)}`
}

/** Returns the id of the sandbox that the labels name. `undefined` when they do not name a valid one. */
export function sandboxIn(labels: Readonly<Record<string, string>> | null | undefined): string | undefined {
  const id = labels?.[SANDBOX_LABEL]
  return id !== undefined && /^[A-Za-z0-9_]+$/.test(id) ? id : undefined
}

function homeDigest(craikHome: string): string {
  return createHash('sha256').update(realpathSync(craikHome)).digest('hex').slice(0, 16)
}
