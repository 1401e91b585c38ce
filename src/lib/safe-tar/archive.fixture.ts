/** Archives as an attacker writes them, and an unpacker without any checks. */
import { chmodSync, linkSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { extract } from 'tar-stream'

export interface RawEntry {
  readonly name: string
  /** One character: 0 file, 1 hard link, 2 symbolic link, 3 and 4 devices, 5 folder, 6 FIFO, S sparse, x g L K. */
  readonly type?: string
  readonly link?: string
  readonly body?: string | Buffer
  readonly mode?: number
  /** Replaces the length of the body. A buffer is written unchanged. */
  readonly size?: number | Buffer
  readonly prefix?: string
  readonly magic?: string
  /** Makes the checksum wrong. */
  readonly damaged?: boolean
}

export function rawArchive(...entries: readonly RawEntry[]): Buffer {
  return Buffer.concat([...entries.map(rawEntry), Buffer.alloc(1024)])
}

export function rawEntry(entry: RawEntry): Buffer {
  const body = Buffer.from(entry.body ?? '')
  const block = Buffer.alloc(512)
  block.write(entry.name, 0, 100)
  block.write(octal(entry.mode ?? 0o644, 7), 100)
  block.write(octal(0, 7), 108)
  block.write(octal(0, 7), 116)
  const size = entry.size ?? body.length
  if (typeof size === 'number') block.write(octal(size, 11), 124)
  else size.copy(block, 124)
  block.write(octal(1_700_000_000, 11), 136)
  block.write(entry.type ?? '0', 156, 1, 'latin1')
  block.write(entry.link ?? '', 157, 100)
  block.write(entry.magic ?? 'ustar\x0000', 257, 8, 'latin1')
  if (entry.prefix !== undefined) block.write(entry.prefix, 345, 155)
  block.fill(' ', 148, 156)
  const sum = block.reduce((total, byte) => total + byte, 0) + (entry.damaged === true ? 1 : 0)
  block.write(`${octal(sum, 6)}\0 `, 148, 8, 'latin1')
  return Buffer.concat([block, body, Buffer.alloc((512 - (body.length % 512)) % 512)])
}

/** Returns one pax record, with the right length unless another one is given. */
export function pax(key: string, value: string, length?: number): string {
  const rest = ` ${key}=${value}\n`
  let total = Buffer.byteLength(rest) + 1
  while (total !== Buffer.byteLength(`${total}${rest}`)) total = Buffer.byteLength(`${total}${rest}`)
  return `${length ?? total}${rest}`
}

/** Unpacks an archive and trusts every name and link in it. */
export async function unpackNaively(folder: string, archive: Buffer): Promise<void> {
  const entries = Readable.from([archive]).pipe(extract() as unknown as NodeJS.WritableStream)
  for await (const entry of entries as unknown as AsyncIterable<NaiveEntry>) {
    const { name, type, linkname, mode } = entry.header
    const path = name.startsWith('/') ? name : join(folder, name)
    mkdirSync(dirname(path), { recursive: true })
    const chunks: Buffer[] = []
    for await (const chunk of entry) chunks.push(chunk)
    if (type === 'directory') mkdirSync(path, { recursive: true })
    else if (type === 'symlink') symlinkSync(linkname!, path)
    else if (type === 'link') linkSync(linkname!.startsWith('/') ? linkname! : join(folder, linkname!), path)
    else {
      writeFileSync(path, Buffer.concat(chunks))
      chmodSync(path, mode)
    }
  }
}

interface NaiveEntry extends AsyncIterable<Buffer> {
  readonly header: {
    readonly name: string
    readonly type: string
    readonly linkname: string | null
    readonly mode: number
  }
}

function octal(value: number, width: number): string {
  return value.toString(8).padStart(width, '0')
}
