/** Packs a tree of the host. */
import { execFileSync } from 'node:child_process'
import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { packFolder } from './pack.ts'
import { unpackInto } from './unpack.ts'

let base: string
let source: string
let target: string

beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'craik-pack-'))
  source = join(base, 'source')
  target = join(base, 'target')
  mkdirSync(source)
  mkdirSync(target)
})
afterEach(() => rmSync(base, { recursive: true, force: true }))

const signal = new AbortController().signal
const LIMITS = { entries: 10_000, bytes: 100_000_000 }

function systemUnpack(archive: Buffer): void {
  execFileSync('tar', ['-x', '-f', '-', '-C', target], { input: archive })
}

describe('packing', () => {
  it('produces an archive that the system’s tar unpacks to the same tree', async () => {
    mkdirSync(join(source, 'a/b'), { recursive: true })
    writeFileSync(join(source, 'a/b/empty'), '')
    writeFileSync(join(source, 'a/run'), 'x'.repeat(700_000), { mode: 0o755 })
    writeFileSync(join(source, `a/${'n'.repeat(200)}`), 'long')
    writeFileSync(join(source, 'ünï 漢'), 'utf8')
    symlinkSync('/etc/passwd', join(source, 'link'))
    symlinkSync('x'.repeat(300), join(source, 'far'))
    const { archive, report } = await packFolder(source, { signal })
    systemUnpack(await buffer(archive))
    expect(() => execFileSync('diff', ['-r', '--no-dereference', source, target])).not.toThrow()
    expect(statSync(join(target, 'a/run')).mode & 0o777).toBe(0o755)
    expect(readlinkSync(join(target, 'link'))).toBe('/etc/passwd')
    expect(report()).toMatchObject({
      files: 4,
      folders: 2,
      links: 2,
      bytes: 700_008,
      skippedCount: 0,
      changed: [],
    })
  })

  it('and unpacking restores the same tree, whatever the names and contents', async () => {
    const name = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 40 }).filter((text) => isName(text))
    const files = fc.dictionary(name, fc.uint8Array({ maxLength: 2000 }), { maxKeys: 8 })
    await fc.assert(
      fc.asyncProperty(files, async (contents) => {
        for (const folder of [source, target]) {
          rmSync(folder, { recursive: true })
          mkdirSync(folder)
        }
        for (const [path, content] of Object.entries(contents)) writeFileSync(join(source, path), content)
        const { archive } = await packFolder(source, { signal, as: 'top' })
        const report = await unpackInto(target, archive, LIMITS, signal, { strip: 1 })
        expect(report).toMatchObject({ files: readdirSync(source).length, skippedCount: 0 })
        expect(readdirSync(target).sort()).toEqual(readdirSync(source).sort())
        for (const path of readdirSync(source))
          expect(readFileSync(join(target, path)).equals(readFileSync(join(source, path)))).toBe(true)
      }),
      { numRuns: 40 },
    )
  })

  it('produces the same archive every time, without an owner', async () => {
    for (const at of [3, 1, 2]) writeFileSync(join(source, `f${at}`), String(at))
    const [one, two] = await Promise.all(
      [1, 2].map(async () => buffer((await packFolder(source, { signal })).archive)),
    )
    expect(one!.equals(two!)).toBe(true)
    const listed = execFileSync('tar', ['-t', '-v', '--numeric-owner', '-f', '-'], {
      input: one!,
      encoding: 'utf8',
    })
    expect(
      listed
        .trim()
        .split('\n')
        .map((line) => line.replace(/\s+/g, ' ').split(' ')[1]),
    ).toEqual(['0/0', '0/0', '0/0'])
    expect(
      listed
        .trim()
        .split('\n')
        .map((line) => line.at(-1)),
    ).toEqual(['1', '2', '3'])
  })

  it('accepts a single file, under another name if requested', async () => {
    writeFileSync(join(source, 'f'), 'content')
    systemUnpack(await buffer((await packFolder(join(source, 'f'), { signal })).archive))
    systemUnpack(await buffer((await packFolder(join(source, 'f'), { signal, as: 'sub/g' })).archive))
    expect(readFileSync(join(target, 'f'), 'utf8')).toBe('content')
    expect(readFileSync(join(target, 'sub/g'), 'utf8')).toBe('content')
  })

  it('leaves out sockets, FIFOs and excluded paths, and reports what it skipped', async () => {
    execFileSync('mkfifo', [join(source, 'fifo')])
    const server = createServer().listen(join(source, 'sock'))
    mkdirSync(join(source, 'node_modules/x'), { recursive: true })
    writeFileSync(join(source, 'node_modules/x/y'), '')
    writeFileSync(join(source, 'kept'), '')
    writeFileSync(Buffer.concat([Buffer.from(`${source}/`), Buffer.from([0x61, 0xff])]), '')
    const packing = await packFolder(source, { signal, exclude: (path) => path === 'node_modules' })
    systemUnpack(await buffer(packing.archive))
    server.close()
    expect(readdirSync(target)).toEqual(['kept'])
    expect(packing.report().skipped).toEqual([
      { path: 'a\ufffd', reason: 'name is not UTF-8' },
      { path: 'fifo', reason: 'fifo' },
      { path: 'sock', reason: 'socket' },
    ])
  })

  it('keeps the announced size of a file that changes while it is read', async () => {
    writeFileSync(join(source, 'a-shrinks'), Buffer.alloc(3_000_000, 1))
    writeFileSync(join(source, 'b-grows'), Buffer.alloc(3_000_000, 1))
    writeFileSync(join(source, 'c-after'), 'fine')
    const { archive, report } = await packFolder(source, { signal })
    const chunks: Buffer[] = []
    for await (const chunk of archive as AsyncIterable<Buffer>) {
      if (chunks.length === 0) truncateSync(join(source, 'a-shrinks'), 1_000_000)
      if (report().files === 2 && statSync(join(source, 'b-grows')).size === 3_000_000)
        appendFileSync(join(source, 'b-grows'), Buffer.alloc(1_000_000, 2))
      chunks.push(chunk)
    }
    systemUnpack(Buffer.concat(chunks))
    expect(statSync(join(target, 'a-shrinks')).size).toBe(3_000_000)
    expect(statSync(join(target, 'b-grows')).size).toBe(3_000_000)
    expect(readFileSync(join(target, 'c-after'), 'utf8')).toBe('fine')
    expect(report().changed).toEqual(['a-shrinks', 'b-grows'])
  })

  it('reads only as fast as its reader, and closes everything when the reader stops', async () => {
    mkdirSync(join(source, 'd'))
    writeFileSync(join(source, 'd/huge'), '')
    truncateSync(join(source, 'd/huge'), 2 ** 34)
    const open = () =>
      readdirSync('/proc/self/fd').filter((fd) => {
        try {
          return readlinkSync(`/proc/self/fd/${fd}`).startsWith(source)
        } catch {
          return false
        }
      }).length
    const { archive, report } = await packFolder(source, { signal })
    archive.on('error', () => {})
    archive.read(0)
    await sleep(100)
    expect(report().bytes).toBeLessThan(4_000_000)
    expect(open()).toBeGreaterThan(0)
    archive.destroy()
    while (open() > 0) await sleep(5)
  })

  it('writes sizes that do not fit into a plain header', async () => {
    writeFileSync(join(source, 'huge'), '')
    truncateSync(join(source, 'huge'), 9 * 2 ** 30)
    const { archive } = await packFolder(source, { signal })
    const chunks: Buffer[] = []
    for await (const chunk of archive as AsyncIterable<Buffer>) {
      chunks.push(chunk)
      if (Buffer.concat(chunks).length > 4096) break
    }
    expect(Buffer.concat(chunks).toString('latin1')).toContain(`size=${9 * 2 ** 30}\n`)
  })

  it('stops when the signal aborts', async () => {
    writeFileSync(join(source, 'f'), Buffer.alloc(5_000_000))
    const stop = new AbortController()
    const { archive } = await packFolder(source, { signal: stop.signal })
    const done = buffer(archive)
    stop.abort()
    await expect(done).rejects.toMatchObject({ name: 'AbortError' })
  })

  it('reports that there is nothing to pack', async () => {
    await expect(packFolder(join(base, 'none'), { signal })).rejects.toMatchObject({ code: 'not_found' })
    await expect(packFolder('/dev/null', { signal })).rejects.toMatchObject({ code: 'usage' })
  })
})

function isName(text: string): boolean {
  return (
    !/[/\0]/.test(text) &&
    text !== '.' &&
    text !== '..' &&
    text.isWellFormed() &&
    Buffer.byteLength(text) < 255
  )
}
