/**
 * Records which engine volume is the disk of a sandbox. A volume cannot be renamed, so replacing a disk means another
 * volume. A file in the sandbox's folder names it. Craik writes each name there before it creates the volume.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { readPrivateFile, writePrivateFile } from '../../../lib/private-files.ts'
import type { SandboxSpec } from '../../backend.ts'
import { containerName } from './container-names.ts'

const MAX_BYTES = 1024
const number = z.int().nonnegative().max(1_000_000_000)

const numbersSchema = z.strictObject({
  disk: number,
  /** The volume that is being written, or what remains of an attempt. */
  next: number.optional(),
  /** The disk before an unfinished exchange. */
  before: number.optional(),
})

export type VolumeNumbers = z.infer<typeof numbersSchema>

export function readNumbers({ folder }: Pick<SandboxSpec, 'folder'>): VolumeNumbers {
  const file = fileIn(folder)
  if (!existsSync(file)) return { disk: 0 }
  return numbersSchema.parse(JSON.parse(readPrivateFile(file, MAX_BYTES).toString()))
}

export function writeNumbers({ folder }: Pick<SandboxSpec, 'folder'>, numbers: VolumeNumbers): void {
  writePrivateFile(fileIn(folder), `${JSON.stringify(numbers)}\n`)
}

export function volumeName({ id }: Pick<SandboxSpec, 'id'>, which: number): string {
  return which === 0 ? containerName(id) : `${containerName(id)}-${which}`
}

/** Returns the volume that is the current disk. */
export function diskVolume(spec: Pick<SandboxSpec, 'id' | 'folder'>): string {
  return volumeName(spec, readNumbers(spec).disk)
}

function fileIn(folder: string): string {
  return join(folder, 'volumes.json')
}
