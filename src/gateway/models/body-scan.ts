/** Unpacks a body and scans it, within bounds. It needs nothing but the bytes: a thread without any secret runs it. */
import { isUtf8 } from 'node:buffer'
import { constants, gunzipSync, zstdDecompressSync } from 'node:zlib'
import { type JsonFault, type LookInto, type Members, scanObject } from './json-members.ts'

/** How bodies may be coded. */
const DECODERS = {
  gzip: (body: Buffer, maxOutputLength: number) => gunzipSync(body, { maxOutputLength }),
  zstd: (body: Buffer, maxOutputLength: number) =>
    zstdDecompressSync(body, {
      maxOutputLength,
      // A frame may ask for a window of 2 GiB. No body is longer than 32 MiB, so no more of it is of use.
      params: { [constants.ZSTD_d_windowLogMax]: 25 },
    }),
} as const

export type Coding = 'identity' | keyof typeof DECODERS

export function isCoding(name: string): name is Coding {
  return name === 'identity' || Object.hasOwn(DECODERS, name)
}

export type ScanFault = 'too_large' | 'ratio' | 'coding' | 'not_utf8'

/** What is to be done with a body. */
export interface ScanTerms {
  readonly coding: Coding
  /** After decompression. */
  readonly maxBytes: number
  /** Undefined: nobody reads its members. */
  readonly lookInto: LookInto | undefined
}

export interface Scanned {
  readonly bytes: Buffer
  /** Undefined: nobody reads them. */
  readonly members: Members | JsonFault | undefined
}

/** A body for the thread: the first bytes of memory that both threads see. */
export interface ScanJob extends ScanTerms {
  readonly memory: SharedArrayBuffer
  readonly length: number
}
/** The thread returns bytes only if it unpacked them. Otherwise the main thread uses its own copy. */
export type ScanAnswer =
  | { readonly fault: ScanFault }
  | (Omit<Scanned, 'bytes'> & { readonly unpacked: ArrayBuffer | undefined })

/** Text rarely shrinks to a tenth. JSON that repeats itself may shrink more, and is small then. */
export const RATIO_MAX = 100
const RATIO_FREE_BYTES = 1024 * 1024

export function scanBody(coded: Buffer, { coding, maxBytes, lookInto }: ScanTerms): Scanned | ScanFault {
  const bytes = coding === 'identity' ? coded : decode(coded, coding, maxBytes)
  if (typeof bytes === 'string') return bytes
  if (!isUtf8(bytes)) return 'not_utf8'
  return { bytes, members: lookInto && scanObject(bytes, lookInto) }
}

/** Unpacks piece by piece, and stops at the bound. */
function decode(coded: Buffer, coding: keyof typeof DECODERS, maxBytes: number): Buffer | ScanFault {
  const mostByRatio = Math.max(RATIO_FREE_BYTES, RATIO_MAX * coded.length)
  try {
    return DECODERS[coding](coded, Math.min(maxBytes, mostByRatio))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_BUFFER_TOO_LARGE') return 'coding'
    return mostByRatio < maxBytes ? 'ratio' : 'too_large'
  }
}
