/** Archives from a hostile sandbox. Each attack is first shown to work on an unpacker that trusts its input. */
import { execFileSync } from 'node:child_process'
import {
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { pax, type RawEntry, rawArchive, rawEntry, unpackNaively } from './archive.fixture.ts'
import { everythingBelow, never, UNPACK_LIMITS, unpackArchive, unpackFolders } from './unpack.fixture.ts'
import { unpackInto } from './unpack.ts'

let base: string
let target: string
let naive: string

beforeEach(() => {
  ;({ base, target, naive } = unpackFolders())
})
afterEach(() => rmSync(base, { recursive: true, force: true }))

const unpack = (archive: Buffer, limits = UNPACK_LIMITS, options = {}) =>
  unpackArchive(target, archive, limits, options)

describe('a valid archive', () => {
  it('is unpacked as it was packed', async () => {
    const source = join(base, 'source')
    mkdirSync(join(source, 'deep/er'), { recursive: true })
    writeFileSync(join(source, 'plain'), 'content')
    writeFileSync(join(source, `deep/${'long'.repeat(40)}`), 'x'.repeat(100_000))
    writeFileSync(join(source, 'deep/er/ü ñ 漢'), '')
    writeFileSync(join(source, 'run'), '#!/bin/sh\n', { mode: 0o755 })
    symlinkSync('../plain', join(source, 'deep/up'))
    symlinkSync(`deep/${'long'.repeat(40)}`, join(source, 'far'))
    linkSync(join(source, 'plain'), join(source, 'twin'))
    for (const format of ['gnu', 'pax', 'ustar']) {
      rmSync(target, { recursive: true })
      mkdirSync(target)
      const names = format === 'ustar' ? ['plain', 'run', 'deep/er'] : ['.']
      const archive = execFileSync('tar', [`--format=${format}`, '-c', '-C', source, '--', ...names], {
        maxBuffer: 1 << 24,
      })
      const report = await unpack(archive)
      expect(report.skipped).toEqual([])
      if (format === 'ustar') continue
      expect(() => execFileSync('diff', ['-r', '--no-dereference', source, target])).not.toThrow()
      expect(statSync(join(target, 'run')).mode & 0o777).toBe(0o755)
      expect(statSync(join(target, 'twin')).ino).toBe(statSync(join(target, 'plain')).ino)
      expect(statSync(join(target, 'plain')).mtimeMs).toBe(
        Math.floor(statSync(join(source, 'plain')).mtimeMs / 1000) * 1000,
      )
    }
  })

  it('can arrive in chunks of any size', async () => {
    const archive = rawArchive({ name: 'a', body: 'x'.repeat(3000) }, { name: 'b/c', body: 'yy' })
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 1, max: 1500 }), { minLength: 1, maxLength: 8 }),
        async (sizes) => {
          const chunks: Buffer[] = []
          for (let at = 0, turn = 0; at < archive.length; turn++) {
            const size = sizes[turn % sizes.length]!
            chunks.push(archive.subarray(at, at + size))
            at += size
          }
          const report = await unpackInto(target, Readable.from(chunks), UNPACK_LIMITS, never())
          expect(report).toMatchObject({ files: 2, bytes: 3002 })
          expect(readFileSync(join(target, 'b/c'), 'utf8')).toBe('yy')
        },
      ),
      { numRuns: 25 },
    )
  })

  it('replaces files, keeps folders, and can be unpacked without its top folder', async () => {
    mkdirSync(join(target, 'd'), { mode: 0o700 })
    writeFileSync(join(target, 'd/old'), 'stays')
    writeFileSync(join(target, 'f'), 'old')
    const archive = rawArchive(
      { name: 'top/', type: '5', mode: 0o755 },
      { name: 'top/d/', type: '5', mode: 0o755 },
      { name: 'top/f', body: 'new' },
      { name: 'top/h', type: '1', link: 'top/f' },
    )
    expect(await unpack(archive, UNPACK_LIMITS, { strip: 1 })).toMatchObject({
      files: 1,
      folders: 1,
      links: 1,
    })
    expect(readFileSync(join(target, 'f'), 'utf8')).toBe('new')
    expect(readFileSync(join(target, 'h'), 'utf8')).toBe('new')
    expect(readFileSync(join(target, 'd/old'), 'utf8')).toBe('stays')
    expect(statSync(join(target, 'd')).mode & 0o777).toBe(0o700)
    await expect(unpack(rawArchive({ name: 'top', body: 'x' }), UNPACK_LIMITS, { strip: 1 })).rejects.toThrow(
      'replace',
    )
  })
})

describe('names', () => {
  const names: readonly (readonly [string, RawEntry])[] = [
    ['..', { name: '../../escaped', body: 'x' }],
    ['.. in the middle', { name: 'a/../../../escaped', body: 'x' }],
    ['.. by its prefix', { name: 'escaped', prefix: '../..', body: 'x' }],
  ]
  it.each(names)('that lead upwards (%s) are refused', async (_, entry) => {
    await unpackNaively(naive, rawArchive(entry))
    expect(existsSync(join(base, 'escaped'))).toBe(true)
    rmSync(join(base, 'escaped'))
    await expect(unpack(rawArchive(entry))).rejects.toMatchObject({ code: 'boundary_failed' })
    expect(existsSync(join(base, 'escaped'))).toBe(false)
  })

  it('that are absolute are refused, also in an extended header', async () => {
    const outside = join(base, 'escaped')
    for (const archive of [
      rawArchive({ name: outside, body: 'x' }),
      rawArchive({ name: 'p', type: 'x', body: pax('path', outside) }, { name: 'harmless', body: 'x' }),
      rawArchive({ name: 'l', type: 'L', body: `${outside}\0` }, { name: 'harmless', body: 'x' }),
    ]) {
      await unpackNaively(naive, archive)
      expect(existsSync(outside)).toBe(true)
      rmSync(outside)
      await expect(unpack(archive)).rejects.toThrow('absolute')
      expect(existsSync(outside)).toBe(false)
    }
  })

  it('with a NUL are refused, and names longer or deeper than any that Craik packs are skipped', async () => {
    const archiveWithName = (name: string) =>
      rawArchive({ name: 'p', type: 'x', body: pax('path', name) }, { name: 'a' })
    await expect(unpack(archiveWithName('a\0b'))).rejects.toThrow('NUL')
    for (const [name, reason] of [
      ['abcdefghi/'.repeat(401), 'name is too long'],
      ['a/'.repeat(257), 'too deep'],
    ] as const)
      expect(await unpack(archiveWithName(name))).toMatchObject({
        files: 0,
        folders: 0,
        skipped: [{ reason }],
      })
    expect(readdirSync(target)).toEqual([])
    const cut = rawArchive({ name: 'l', type: 'L', body: 'good\0/../../evil\0' }, { name: 'a', body: 'x' })
    await expect(unpack(cut)).rejects.toThrow('NUL')
  })

  it('that are not UTF-8 are skipped, and none is mistaken for another', async () => {
    const entry = rawEntry({ name: 'aXb', body: '1' })
    entry[1] = 0xff
    const sum = Number.parseInt(entry.toString('latin1', 148, 154), 8) + 0xff - 'X'.charCodeAt(0)
    entry.write(sum.toString(8).padStart(6, '0'), 148)
    const report = await unpack(Buffer.concat([entry, rawArchive({ name: 'c', body: '2' })]))
    expect(report).toMatchObject({ files: 1, skippedCount: 1, skipped: [{ reason: 'name is not UTF-8' }] })
    expect(readdirSync(target)).toEqual(['c'])
  })

  it('of any kind never write outside of the folder, and are reported without control characters', async () => {
    const component = fc.oneof(
      fc.constantFrom('..', '.', '', 'a', 'b', '\\..\\x', '...', ' ', '\u202e', '\x1b[2J', '~', '-rf', 'C:'),
      fc.string({ unit: 'binary', maxLength: 12 }),
    )
    const name = fc.array(component, { minLength: 1, maxLength: 6 }).map((parts) => parts.join('/'))
    const kind = fc.constantFrom('0', '1', '2', '5', '6')
    const entry = fc.record({ name, link: name, type: kind, linked: fc.boolean() })
    await fc.assert(
      fc.asyncProperty(fc.array(entry, { maxLength: 6 }), async (entries) => {
        rmSync(target, { recursive: true })
        mkdirSync(target)
        const archive = rawArchive(
          ...entries.flatMap(({ name, link, type }): RawEntry[] => [
            { name: 'p', type: 'x', body: pax('path', name) + pax('linkpath', link) },
            { name: 'x', type, link: 'x' },
          ]),
        )
        try {
          const report = await unpack(archive)
          for (const { path } of report.skipped) expect(path).not.toMatch(/\p{Cc}/u)
        } catch (error) {
          expect((error as { code: string }).code).toBe('boundary_failed')
        }
        expect(readdirSync(base)).toEqual(['in'])
        expect(readdirSync(join(base, 'in')).sort()).toEqual(['naive', 'target'])
        for (const path of everythingBelow(target)) {
          if (!lstatSync(join(target, path)).isSymbolicLink()) continue
          const link = readlinkSync(join(target, path))
          expect(join(target, path, '..', link).startsWith(target)).toBe(true)
        }
      }),
      { numRuns: 150 },
    )
  })
})

describe('special entries', () => {
  it('devices and FIFOs are skipped', async () => {
    const report = await unpack(
      rawArchive(
        { name: 'c', type: '3' },
        { name: 'b', type: '4' },
        { name: 'f', type: '6' },
        { name: 'ok' },
      ),
    )
    expect(report.skipped.map(({ reason }) => reason)).toEqual(['device', 'device', 'fifo'])
    expect(readdirSync(target)).toEqual(['ok'])
  })

  it('no entry gets set-id bits, and others never get write permission', async () => {
    const entry = { name: 'su', body: 'x', mode: 0o6777 }
    await unpackNaively(naive, rawArchive(entry))
    expect(statSync(join(naive, 'su')).mode & 0o7777).toBe(0o6777)
    await unpack(
      rawArchive(entry, { name: 'd/', type: '5', mode: 0o7777 }, { name: 'closed/', type: '5', mode: 0 }),
    )
    expect(statSync(join(target, 'su')).mode & 0o7777).toBe(0o755)
    expect(statSync(join(target, 'd')).mode & 0o7777).toBe(0o755)
    expect(statSync(join(target, 'closed')).mode & 0o7777).toBe(0o700)
  })

  it('a pipe, socket or device of the host is not replaced', async () => {
    execFileSync('mkfifo', [join(target, 'pipe')])
    const report = await unpack(
      rawArchive(
        { name: 'pipe', body: 'x' },
        { name: 'pipe', type: '2', link: 'ok' },
        { name: 'ok' },
        { name: 'pipe', type: '1', link: 'ok' },
      ),
    )
    expect(report.skipped.map(({ reason }) => reason)).toEqual(Array(3).fill('a special file is in the way'))
    expect(lstatSync(join(target, 'pipe')).isFIFO()).toBe(true)
  })

  it('zeros take no disk space, wherever they are in a file, and the content is the same', async () => {
    const body = Buffer.alloc(2_000_000)
    for (let at = 0; at < body.length; at += 65_536) body[at] = 1
    const zeros = Buffer.alloc(1_000_001)
    await unpack(
      rawArchive({ name: 'odd', body: 'x' }, { name: 'some', body }, { name: 'none', body: zeros }),
    )
    expect(readFileSync(join(target, 'some')).equals(body)).toBe(true)
    expect(readFileSync(join(target, 'none')).equals(zeros)).toBe(true)
    expect(statSync(join(target, 'some')).blocks * 512).toBeLessThan(400_000)
    expect(statSync(join(target, 'none')).blocks).toBe(0)
  })

  it('a file never replaces a folder', async () => {
    mkdirSync(join(target, 'keep'))
    writeFileSync(join(target, 'keep/f'), 'x')
    const report = await unpack(
      rawArchive({ name: 'keep', body: 'x' }, { name: 'keep', type: '2', link: 'f' }),
    )
    expect(report.skipped.map(({ reason }) => reason)).toEqual([
      'a folder is in the way',
      'a folder is in the way',
    ])
    expect(everythingBelow(target)).toEqual(['keep', 'keep/f'])
  })
})

describe('malformed archives', () => {
  const big = Buffer.from([0x80, 0, 0, 0, 0x7f, 255, 255, 255, 255, 255, 255, 255])
  const negative = Buffer.alloc(12, 0xff)
  const archives: readonly (readonly [string, Buffer])[] = [
    ['a size beyond counting', rawArchive({ name: 'a', size: big })],
    ['a negative size', rawArchive({ name: 'a', size: negative })],
    ['a size that is no number', rawArchive({ name: 'a', size: Buffer.from('12x456789012') })],
    [
      'a negative size in a pax record',
      rawArchive({ name: 'p', type: 'x', body: pax('size', '-5') }, { name: 'a' }),
    ],
    [
      'a pax size with more behind it',
      rawArchive({ name: 'p', type: 'x', body: pax('size', '5junk') }, { name: 'a' }),
    ],
    [
      'a pax size beyond counting',
      rawArchive({ name: 'p', type: 'x', body: pax('size', '9'.repeat(16)) }, { name: 'a' }),
    ],
    [
      'a pax record longer than its header',
      rawArchive({ name: 'p', type: 'x', body: pax('path', 'a', 900) }, { name: 'a' }),
    ],
    [
      'a pax record of length 0',
      rawArchive({ name: 'p', type: 'x', body: pax('path', 'a', 0) }, { name: 'a' }),
    ],
    ['a negative pax record', rawArchive({ name: 'p', type: 'x', body: '-9 path=x\n' }, { name: 'a' })],
    [
      'a pax record said twice',
      rawArchive({ name: 'p', type: 'x', body: pax('path', 'a') + pax('path', 'b') }, { name: 'a' }),
    ],
    ['a header of many megabytes', rawArchive({ name: 'p', type: 'x', size: 50_000_000 })],
    ['a long name of many megabytes', rawArchive({ name: 'p', type: 'L', size: 50_000_000 })],
    ['an old sparse file', rawArchive({ name: 'a', type: 'S', size: 5 })],
    [
      'a new sparse file',
      rawArchive({ name: 'p', type: 'x', body: pax('GNU.sparse.realsize', '99999999999') }, { name: 'a' }),
    ],
    [
      'a header for all that follow',
      rawArchive({ name: 'p', type: 'g', body: pax('path', '/etc/passwd') }, { name: 'a' }),
    ],
    ['an unknown type', rawArchive({ name: 'a', type: 'Z' })],
    ['a wrong checksum', rawArchive({ name: 'a', damaged: true })],
    ['an unknown format', rawArchive({ name: 'a', magic: 'nothing!' })],
    ['a folder with content', rawArchive({ name: 'a/', type: '5', body: 'x' })],
    ['a link with content', rawArchive({ name: 'a', type: '2', link: 'b', body: 'x' })],
    [
      'two long names',
      rawArchive({ name: 'l', type: 'L', body: 'a\0' }, { name: 'l', type: 'L', body: 'b\0' }, { name: 'c' }),
    ],
    ['an end after a long name', rawArchive({ name: 'l', type: 'L', body: 'a\0' })],
    ['an end in the middle of a file', rawEntry({ name: 'a', size: 5000 })],
    ['no end', rawEntry({ name: 'a', body: 'x' })],
    ['more after the end', Buffer.concat([rawArchive({ name: 'a' }), Buffer.alloc(2_000_000, 1)])],
    ['nothing at all', Buffer.alloc(0)],
    ['no archive', Buffer.from('#!/bin/sh\necho hello\n'.repeat(100))],
    ['a file in place of the target', rawArchive({ name: './', type: '0', body: 'x' })],
  ]
  it.each(archives)('%s: the archive is refused', async (_, archive) => {
    await expect(unpack(archive)).rejects.toMatchObject({ code: 'boundary_failed' })
    expect(everythingBelow(target).filter((path) => path.includes('.craik-unpack'))).toEqual([])
  })

  it('more entries or bytes than allowed stop the unpacking before they are written', async () => {
    const many = rawArchive(...Array.from({ length: 20 }, (_, at) => ({ name: `f${at}` })))
    await expect(unpack(many, { entries: 10, bytes: 1 })).rejects.toMatchObject({ code: 'too_large' })
    expect(readdirSync(target)).toHaveLength(10)
    const announced = rawArchive({ name: 'ok', body: 'x' }, { name: 'bomb', size: 0o77777777777 })
    await expect(unpack(announced, { entries: 10, bytes: 1000 })).rejects.toMatchObject({ code: 'too_large' })
    expect(existsSync(join(target, 'bomb'))).toBe(false)
    const passedOver = Array.from({ length: 5 }, (_, at) => ({ name: `ok/f${at}`, body: 'x'.repeat(300) }))
    await expect(unpack(rawArchive(...passedOver), { entries: 10, bytes: 1000 })).rejects.toMatchObject({
      code: 'too_large',
    })
  })

  it('any damage to any byte is either detected or harmless', async () => {
    const good = rawArchive(
      { name: 'dir/', type: '5' },
      { name: 'dir/f', body: 'content' },
      { name: 'l', type: '2', link: 'dir' },
    )
    await fc.assert(
      fc.asyncProperty(fc.nat(good.length - 1), fc.nat(255), async (at, byte) => {
        const archive = Buffer.from(good)
        archive[at] = byte
        await unpack(archive).catch((error: { code?: string }) => expect(error.code).toBe('boundary_failed'))
        expect(readdirSync(base)).toEqual(['in'])
      }),
      { numRuns: 200 },
    )
  })
})

describe('unpackInto', () => {
  it('stops when the signal aborts, and leaves no partial file', async () => {
    const archive = new PassThrough()
    const stop = new AbortController()
    const done = unpackInto(target, archive, UNPACK_LIMITS, stop.signal)
    archive.write(rawEntry({ name: 'half', size: 5000 }))
    while (readdirSync(target).length === 0) await sleep(2)
    const reason = new Error('the user left')
    stop.abort(reason)
    await expect(done).rejects.toBe(reason)
    expect(readdirSync(target)).toEqual([])
    expect(archive.destroyed).toBe(true)
  })

  it('reports that the folder does not exist', async () => {
    const done = unpackInto(join(base, 'none'), Readable.from([]), UNPACK_LIMITS, never())
    await expect(done).rejects.toMatchObject({ code: 'not_found' })
  })
})
