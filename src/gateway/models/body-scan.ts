/**
 * Decompresses a body and scans it, within limits. It depends only on the bytes, so a thread without secrets can run
 * it.
 */
import { isUtf8 } from 'node:buffer'
import { constants, gunzipSync, zstdDecompressSync } from 'node:zlib'
import { type JsonFault, type LookInto, type Members, scanObject } from './json-members.ts'

/** The supported content encodings. */
const DECODERS = {
  gzip: (body: Buffer, maxOutputLength: number) => gunzipSync(body, { maxOutputLength }),
  zstd: (body: Buffer, maxOutputLength: number) =>
    zstdDecompressSync(body, {
      maxOutputLength,
      // A frame can request a window of 2 GiB. No body is longer than 32 MiB, so a larger window is useless.
      params: { [constants.ZSTD_d_windowLogMax]: 25 },
    }),
} as const

export type Coding = 'identity' | keyof typeof DECODERS

export function isCoding(name: string): name is Coding {
  return name === 'identity' || Object.hasOwn(DECODERS, name)
}

export type ScanFault = 'too_large' | 'ratio' | 'coding' | 'not_utf8'

/** The operations on a body. */
export interface ScanTerms {
  readonly coding: Coding
  /** After decompression. */
  readonly maxBytes: number
  /** `undefined` when no member of the body is needed. */
  readonly lookInto: LookInto | undefined
}

export interface Scanned {
  readonly bytes: Buffer
  /** `undefined` when no member of the body is needed. */
  readonly members: Members | JsonFault | undefined
}

/** A body for the thread: the first bytes of memory that both threads share. */
export interface ScanJob extends ScanTerms {
  readonly memory: SharedArrayBuffer
  readonly length: number
}
/** The thread returns bytes only if it unpacked them. Otherwise the main thread uses its own copy. */
export type ScanAnswer =
  | { readonly fault: ScanFault }
  | (Omit<Scanned, 'bytes'> & { readonly unpacked: ArrayBuffer | undefined })

/** Text rarely shrinks to a tenth. Repetitive JSON may shrink more, but is then small. */
export const RATIO_MAX = 100
const RATIO_FREE_BYTES = 1024 * 1024

export function scanBody(coded: Buffer, { coding, maxBytes, lookInto }: ScanTerms): Scanned | ScanFault {
  const bytes = coding === 'identity' ? coded : decode(coded, coding, maxBytes)
  if (typeof bytes === 'string') return bytes
  if (!isUtf8(bytes)) return 'not_utf8'
  return { bytes, members: lookInto && scanObject(bytes, lookInto) }
}

/** Decompresses in chunks, and stops at the limit. */
function decode(coded: Buffer, coding: keyof typeof DECODERS, maxBytes: number): Buffer | ScanFault {
  const mostByRatio = Math.max(RATIO_FREE_BYTES, RATIO_MAX * coded.length)
  try {
    return DECODERS[coding](coded, Math.min(maxBytes, mostByRatio))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_BUFFER_TOO_LARGE') return 'coding'
    return mostByRatio < maxBytes ? 'ratio' : 'too_large'
  }
}
