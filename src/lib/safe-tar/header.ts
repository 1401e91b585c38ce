/**
 * The 512-byte header of a tar entry, and the records that extend it. Reading is strict and refuses what no honest
 * archiver writes. An archive that two readers understand differently can be used to trick one of them.
 */
import { CraikError } from '../../errors.ts'

export const BLOCK_BYTES = 512

/** `extended`: pax records for the next entry. The two `long` kinds are GNU's equivalent. */
export type HeaderKind =
  | 'file'
  | 'folder'
  | 'symlink'
  | 'hardlink'
  | 'device'
  | 'fifo'
  | 'extended'
  | 'long-name'
  | 'long-link'

export interface Header {
  readonly kind: HeaderKind
  readonly name: string
  readonly link: string
  readonly bytes: number
  readonly mode: number
  readonly modifiedAtS: number
  /** Written, never read. Without it, the entry belongs to the user who unpacks it. */
  readonly owner?: { readonly uid: number; readonly gid: number }
}

const KINDS: ReadonlyMap<string, HeaderKind> = new Map([
  ['\0', 'file'],
  ['0', 'file'],
  ['7', 'file'],
  ['1', 'hardlink'],
  ['2', 'symlink'],
  ['3', 'device'],
  ['4', 'device'],
  ['5', 'folder'],
  ['6', 'fifo'],
  ['x', 'extended'],
  ['L', 'long-name'],
  ['K', 'long-link'],
])

/** Returns `undefined` for a block of zeros, which ends an archive. */
export function parseHeader(block: Buffer): Header | undefined {
  if (block.every((byte) => byte === 0)) return undefined
  if (parseOctal(block, 148, 8, 'checksum') !== checksum(block))
    throw malformedArchiveError('a checksum is wrong')
  const magic = block.toString('latin1', 257, 265)
  const posix = magic === 'ustar\x0000'
  if (!posix && magic !== 'ustar  \0') throw malformedArchiveError('a header has an unknown format')
  const type = block.toString('latin1', 156, 157)
  const kind = KINDS.get(type)
  if (kind === undefined)
    throw malformedArchiveError(`an entry has the unsupported type ${JSON.stringify(type)}`)
  const short = decodeField(block.subarray(0, 100))
  const prefix = posix ? decodeField(block.subarray(345, 500)) : ''
  const name = prefix === '' ? short : `${prefix}/${short}`
  return {
    kind,
    name,
    link: decodeField(block.subarray(157, 257)),
    bytes: parseSize(block),
    mode: parseOctal(block, 100, 8, 'mode') & 0o7777,
    modifiedAtS: parseTime(block),
  }
}

/** Encodes the header of an entry. Values that do not fit are written as pax records in front of it. */
export function encodeHeader(header: Header): Buffer {
  const records = [
    fits(header.name, 100) ? '' : paxRecord('path', header.name),
    fits(header.link, 100) ? '' : paxRecord('linkpath', header.link),
    header.bytes <= 0o77777777777 ? '' : paxRecord('size', String(header.bytes)),
  ].join('')
  if (records === '') return encodeBlock(header)
  const body = Buffer.from(records)
  return Buffer.concat([
    encodeBlock({ ...header, kind: 'extended', name: 'pax', link: '', bytes: body.length }),
    body,
    Buffer.alloc(paddingOf(body.length)),
    encodeBlock(header),
  ])
}

/** Returns the records of an `extended` entry. Throws for sparse files, which Craik does not support. */
export function parsePax(body: Buffer): ReadonlyMap<string, string> {
  const records = new Map<string, string>()
  let at = 0
  while (at < body.length) {
    const blank = body.indexOf(0x20, at)
    const digits = blank === -1 ? '' : body.toString('latin1', at, blank)
    const length = /^[1-9][0-9]{0,6}$/.test(digits) ? Number(digits) : 0
    const end = at + length
    const equals = body.indexOf(0x3d, blank)
    if (length === 0 || end > body.length || body[end - 1] !== 0x0a || equals === -1 || equals >= end)
      throw malformedArchiveError('cannot parse an extended header')
    const key = body.toString('latin1', blank + 1, equals)
    if (key.startsWith('GNU.sparse.'))
      throw malformedArchiveError('an entry is a sparse file, which is unsupported')
    if (records.has(key))
      throw malformedArchiveError(`an extended header contains ${JSON.stringify(key.slice(0, 40))} twice`)
    records.set(key, decodeName(body.subarray(equals + 1, end - 1)))
    at = end
  }
  return records
}

/** Parses a size that consists of decimal digits and nothing else. */
export function parseDecimalSize(value: string): number {
  const size = /^[0-9]{1,16}$/.test(value) ? Number(value) : Number.NaN
  if (!Number.isSafeInteger(size)) throw malformedArchiveError('a size is not a number')
  return size
}

export function paddingOf(bytes: number): number {
  return (BLOCK_BYTES - (bytes % BLOCK_BYTES)) % BLOCK_BYTES
}

export function malformedArchiveError(why: string): CraikError {
  return new CraikError('boundary_failed', `refused to unpack the archive: ${why}`, {
    hint: 'inspect the files in the sandbox: a program there may have written a malformed archive',
  })
}

function encodeBlock(header: Header): Buffer {
  const block = Buffer.alloc(BLOCK_BYTES)
  block.write(fits(header.name, 100) ? header.name : 'long', 0, 100)
  writeOctal(block, 100, 8, header.mode)
  writeOctal(block, 108, 8, header.owner?.uid ?? 0)
  writeOctal(block, 116, 8, header.owner?.gid ?? 0)
  writeOctal(block, 124, 12, header.bytes <= 0o77777777777 ? header.bytes : 0)
  writeOctal(block, 136, 12, Math.min(Math.max(0, header.modifiedAtS), 0o77777777777))
  block.write(typeOf(header.kind), 156, 1)
  block.write(fits(header.link, 100) ? header.link : 'long', 157, 100)
  block.write('ustar\x0000', 257, 8, 'latin1')
  block.write(`${checksum(block).toString(8).padStart(6, '0')}\0 `, 148, 8, 'latin1')
  return block
}

function typeOf(kind: HeaderKind): string {
  for (const [type, known] of KINDS) if (known === kind && type !== '\0') return type
  throw new CraikError('internal', `no tar type for ${kind}`)
}

/** Accepts only ASCII, because readers disagree about anything else in a plain header. */
function fits(value: string, bytes: number): boolean {
  return value.length <= bytes && /^[\x20-\x7e]*$/.test(value)
}

/** Formats a pax record. Its length includes its own digits. */
function paxRecord(key: string, value: string): string {
  const rest = ` ${key}=${value}\n`
  const bytes = Buffer.byteLength(rest)
  let length = bytes + String(bytes).length
  if (bytes + String(length).length !== length) length = bytes + String(length).length
  return `${length}${rest}`
}

function writeOctal(block: Buffer, at: number, width: number, value: number): void {
  block.write(value.toString(8).padStart(width - 1, '0'), at, width - 1, 'latin1')
}

function checksum(block: Buffer): number {
  let sum = 8 * 0x20
  for (let at = 0; at < BLOCK_BYTES; at++) if (at < 148 || at >= 156) sum += block[at]!
  return sum
}

function parseSize(block: Buffer): number {
  if (block[124] !== 0x80) return parseOctal(block, 124, 12, 'size')
  // GNU writes a number that does not fit in big-endian form. The upper bytes of a size that Craik could handle are
  // zero.
  if (block.subarray(125, 129).some((byte) => byte !== 0)) throw malformedArchiveError('a size is too large')
  const size = Number(block.readBigUInt64BE(128))
  if (!Number.isSafeInteger(size)) throw malformedArchiveError('a size is too large')
  return size
}

/** An archive is not refused for a time before 1970 or out of range. */
function parseTime(block: Buffer): number {
  return (block[136]! & 0x80) !== 0 ? 0 : parseOctal(block, 136, 12, 'time')
}

function parseOctal(block: Buffer, at: number, width: number, what: string): number {
  const match = /^[ ]*([0-7]*)[ \0]*$/.exec(block.toString('latin1', at, at + width))
  if (match === null) throw malformedArchiveError(`a ${what} is not a number`)
  return match[1] === '' ? 0 : Number.parseInt(match[1]!, 8)
}

/** Decodes a field up to its first NUL. */
function decodeField(field: Buffer): string {
  const end = field.indexOf(0)
  return decodeName(end === -1 ? field : field.subarray(0, end))
}

/**
 * Decodes a name. A name that is not UTF-8 gets a lone surrogate in front, which decoding never produces, so that its
 * entry is skipped. With replacement characters, different names would become the same.
 */
export function decodeName(bytes: Buffer): string {
  const value = bytes.toString('utf8')
  return Buffer.from(value).equals(bytes) ? value : `\ud800${value}`
}
