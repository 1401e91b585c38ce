/** Which sandbox has a volume: at most one, whatever became of it, until it is deleted. */
import { CraikError } from '../../errors.ts'
import type { VolumeSpec } from '../backend.ts'

type Row = { readonly document: string }

/** One that is lost counts too: something of it may still run. */
export function refuseVolumesInUse(volumes: readonly VolumeSpec[], rows: readonly Row[]): void {
  if (volumes.length === 0) return
  const holders = volumeUsers(rows)
  for (const { name } of volumes) {
    const owner = holders.get(name)
    if (owner !== undefined) throw volumeInUseError(name, owner)
  }
}

/** The names of sandboxes by those of their volumes; also of records that were changed outside Craik. */
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
    hint: `delete that sandbox, which keeps the volume:  craik sandbox delete ${sandbox}`,
  })
}
