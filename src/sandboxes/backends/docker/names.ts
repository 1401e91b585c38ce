/** What the engine's things of a sandbox are called, and how they say whose they are. */
import { createHash } from 'node:crypto'
import { realpathSync } from 'node:fs'
import type { SandboxId } from '../../../lib/ids.ts'

const SANDBOX_LABEL = 'craik.sandbox'
const HOME_LABEL = 'craik.home'

/** Engines take no capital letters in some of their names. */
export function containerName(id: SandboxId): string {
  return `craik-${id.toLowerCase().replaceAll('_', '-')}`
}

/** Output that does not fit in memory: of no use to anybody once nothing runs. */
export const spillVolume = (id: SandboxId): string => `${containerName(id)}-spill`

/** The home is told by a digest: the path of a folder says who works there. */
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

/** Everything of one sandbox, as engines filter by it. */
export function sandboxFilters(id: SandboxId, craikHome: string): string[] {
  return Object.entries(labelsOf(id, craikHome)).map(([name, value]) => `${name}=${value}`)
}

/** Everything of this home, as engines filter by it. */
export function homeFilter(craikHome: string): string {
  return `${HOME_LABEL}=${homeDigest(craikHome)}`
}

/** Under which names this home keeps images. */
export function homeRepository(craikHome: string): string {
  return `craik/home-${homeDigest(craikHome)}`
}

/** Which sandbox it says it belongs to; undefined when that is no name of one. */
export function sandboxIn(labels: Readonly<Record<string, string>> | null | undefined): string | undefined {
  const id = labels?.[SANDBOX_LABEL]
  return id !== undefined && /^[A-Za-z0-9_]+$/.test(id) ? id : undefined
}

function homeDigest(craikHome: string): string {
  return createHash('sha256').update(realpathSync(craikHome)).digest('hex').slice(0, 16)
}
