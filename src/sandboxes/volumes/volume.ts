/** Checks the names of a sandbox's volumes, and their locations in its home. */
import { z } from 'zod'
import type { VolumeSpec } from '../backend.ts'

/** The most volumes of one sandbox. */
export const MAX_VOLUMES = 8
const MAX_SEGMENTS = 4
/** The location of the workspace. To keep its content, a user copies it out or works in place. */
const WORKSPACE = 'project'

export const VOLUME_NAME_PATTERN = /^[a-z0-9][a-z0-9-]{0,62}$/

const at = z
  .string()
  .max(256, 'has more than 256 characters')
  .refine(isPlainPath, `must be a path in the home, of at most ${MAX_SEGMENTS} names such as .config/gh`)
  .refine((path) => path.split('/')[0] !== WORKSPACE, 'must not be in the workspace')

export const volume = z.strictObject({
  name: z
    .string()
    .regex(VOLUME_NAME_PATTERN, 'must be lower-case letters, digits and -, at most 63 characters'),
  at,
})

export const volumes = z
  .array(volume)
  .max(MAX_VOLUMES, `must be at most ${MAX_VOLUMES}`)
  .refine((all) => new Set(all.map(({ name }) => name)).size === all.length, 'contains the same volume twice')
  .refine((all) => !hasNested(all), 'contains one volume inside another')

/** Returns the target for policy requests and receipts. */
export function volumeTarget(name: string): string {
  return `volume/${name}`
}

function isPlainPath(path: string): boolean {
  const names = path.split('/')
  return (
    names.length <= MAX_SEGMENTS &&
    names.every((name) => /^[A-Za-z0-9._][A-Za-z0-9._-]{0,63}$/.test(name) && name !== '.' && name !== '..')
  )
}

function hasNested(all: readonly VolumeSpec[]): boolean {
  return all.some((one, i) => all.some((other, j) => i !== j && `${one.at}/`.startsWith(`${other.at}/`)))
}
