/** Finds the sandbox that uses a volume. At most one does, in any state, until it is deleted. */
import { CraikError } from '../../errors.ts'
import type { VolumeSpec } from '../backend.ts'

type Row = { readonly document: string }

/** A lost sandbox counts too, because parts of it may still run. */
export function refuseVolumesInUse(volumes: readonly VolumeSpec[], rows: readonly Row[]): void {
  if (volumes.length === 0) return
  const holders = volumeUsers(rows)
  for (const { name } of volumes) {
    const owner = holders.get(name)
    if (owner !== undefined) throw volumeInUseError(name, owner)
  }
}

/** Maps the names of volumes to those of their sandboxes. Includes records that were changed outside Craik. */
export function volumeUsers(rows: readonly Row[]): ReadonlyMap<string, string> {
  const holders = new Map<string, string>()
  for (const { document } of rows) {
    const { name, spec } = (JSON.parse(document) ?? {}) as Held
    for (const volume of Array.isArray(spec?.volumes) ? spec.volumes : [])
      holders.set(String(volume?.name), String(name))
  }
  return holders
}

interface Held {
  readonly name?: string
  readonly spec?: { readonly volumes?: readonly (VolumeSpec | null)[] }
}

export function volumeInUseError(volume: string, sandbox: string): CraikError {
  return new CraikError('conflict', `the volume ${volume} belongs to sandbox ${sandbox}`, {
    hint: `first delete that sandbox (the volume stays), then repeat this command:  craik sandbox delete ${sandbox}`,
  })
}
