import { readFileSync } from 'node:fs'
import { lazy } from '../../../lib/memoize.ts'

/** The type of the entry with the page size, from the kernel's `auxvec.h`. */
const AT_PAGESZ = 6n
const USUAL_BYTES = 4096

/** The kernel's page size. It is 4 KiB on x64, and 4, 16 or 64 KiB on arm64. */
export const hostPageBytes = lazy(() => {
  try {
    return parsePageBytes(readFileSync('/proc/self/auxv'))
  } catch {
    return USUAL_BYTES
  }
})

/** Parses the auxiliary vector of a 64-bit program: pairs of a type and a value. */
export function parsePageBytes(auxv: Buffer): number {
  for (let at = 0; at + 16 <= auxv.length; at += 16)
    if (auxv.readBigUInt64LE(at) === AT_PAGESZ) return Number(auxv.readBigUInt64LE(at + 8))
  return USUAL_BYTES
}
