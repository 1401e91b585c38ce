/**
 * Which of the engine's volumes is the disk of a sandbox. A volume cannot be renamed, so a disk that is exchanged is
 * another volume, and a file in the sandbox's own folder says which: what may exist is named there before it is made.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { readPrivateFile, writePrivateFile } from '../../../lib/private-files.ts'
import type { SandboxSpec } from '../../backend.ts'
import { containerName } from './names.ts'

const MAX_BYTES = 1024
const number = z.int().nonnegative().max(1_000_000_000)

const numbersSchema = z.strictObject({
  disk: number,
  /** Being written, or left of that. */
  next: number.optional(),
  /** The disk before an exchange that was not settled. */
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

/** The one that is the disk now. */
export function diskVolume(spec: Pick<SandboxSpec, 'id' | 'folder'>): string {
  return volumeName(spec, readNumbers(spec).disk)
}

function fileIn(folder: string): string {
  return join(folder, 'volumes.json')
}
