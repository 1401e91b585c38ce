/** Packs a tree that a sandbox wrote, and unpacks it as the disk of another sandbox. */
import {
  chmodSync,
  chownSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { rawArchive } from './archive.fixture.ts'
import { packFolder } from './pack.ts'
import { unpackInto } from './unpack.ts'

const IS_ROOT = process.getuid?.() === 0
const LIMITS = { entries: 1000, bytes: 10 ** 9 }
const signal = new AbortController().signal
let base: string
let source: string
let target: string

beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'craik-disk-'))
  source = join(base, 'source')
  target = join(base, 'target')
  mkdirSync(source)
  mkdirSync(target)
})
afterEach(() => {
  for (const folder of [source, target])
    if (lstatSync(join(folder, 'closed'), { throwIfNoEntry: false })) chmodSync(join(folder, 'closed'), 0o700)
  rmSync(base, { recursive: true, force: true })
})

async function copyFolder(asDisk: NonNullable<Parameters<typeof unpackInto>[4]>['asDisk'] = {}) {
  const { archive, report } = await packFolder(source, { signal, limits: LIMITS, hardLinks: true })
  const unpacked = await unpackInto(target, archive, LIMITS, signal, { asDisk })
  return { packed: report(), unpacked }
}

describe('the disk of a sandbox', () => {
  it('keeps links wherever they lead, modes except set-id bits, and closed folders with their content', async () => {
    symlinkSync('/etc/passwd', join(source, 'absolute'))
    symlinkSync('../../..', join(source, 'upwards'))
    writeFileSync(join(source, 'open'), '')
    chmodSync(join(source, 'open'), 0o666)
    writeFileSync(join(source, 'set-id'), '')
    chmodSync(join(source, 'set-id'), 0o6755)
    mkdirSync(join(source, 'closed'))
    writeFileSync(join(source, 'closed/in'), 'x')
    chmodSync(join(source, 'closed'), 0o555)
    await copyFolder()
    expect(readlinkSync(join(target, 'absolute'))).toBe('/etc/passwd')
    expect(readlinkSync(join(target, 'upwards'))).toBe('../../..')
    const mode = (name: string) => lstatSync(join(target, name)).mode & 0o7777
    expect([mode('open'), mode('set-id'), mode('closed')]).toEqual([0o666, 0o755, 0o555])
    expect(readFileSync(join(target, 'closed/in'), 'utf8')).toBe('x')
  })

  it('gives each folder the last of its modes, in whatever order an archive lists folders', async () => {
    const folder = (name: string, mode: number) => ({ name, type: '5', mode })
    const archive = rawArchive(
      folder('closed/sub/deep', 0),
      folder('closed', 0),
      folder('closed/sub', 0),
      folder('closed', 0o500),
      folder('again', 0),
      folder('again', 0o755),
    )
    // Root could enter every folder.
    if (IS_ROOT) {
      for (const path of [base, target]) chownSync(path, 12_345, -1)
      process.seteuid?.(12_345)
    }
    try {
      await unpackInto(target, Readable.from([archive]), LIMITS, signal, { asDisk: {} })
    } finally {
      if (IS_ROOT) process.seteuid?.(0)
    }
    const modes = ['closed', 'closed/sub', 'closed/sub/deep', 'again'].map((name) => {
      const { mode } = lstatSync(join(target, name))
      chmodSync(join(target, name), 0o700)
      return mode & 0o7777
    })
    expect(modes).toEqual([0o500, 0, 0, 0o755])
  })

  it('keeps one file with several names as one file', async () => {
    writeFileSync(join(source, 'a'), 'content')
    mkdirSync(join(source, 'd'))
    linkSync(join(source, 'a'), join(source, 'd/b'))
    const { packed } = await copyFolder()
    expect(packed).toMatchObject({ files: 1, links: 1, bytes: 7 })
    expect(lstatSync(join(target, 'a')).ino).toBe(lstatSync(join(target, 'd/b')).ino)
  })

  it('takes no space for holes', async () => {
    writeFileSync(join(source, 'holes'), 'begin')
    truncateSync(join(source, 'holes'), 40_000_000)
    await copyFolder()
    const found = lstatSync(join(target, 'holes'))
    expect(found.size).toBe(40_000_000)
    expect(found.blocks * 512).toBeLessThan(2_000_000)
    expect(readFileSync(join(target, 'holes')).equals(readFileSync(join(source, 'holes')))).toBe(true)
  })

  it('is not packed beyond its limits, whatever file sizes it claims', async () => {
    truncateSync(join(source, writeIn('huge')), 2 ** 40)
    const pack = await packFolder(source, { signal, limits: LIMITS })
    await expect(buffer(pack.archive)).rejects.toMatchObject({
      code: 'too_large',
      details: { beyond: 'bytes' },
    })
    for (const name of ['a', 'b', 'c']) writeFileSync(join(target, name), '')
    const few = await packFolder(target, { signal, limits: { entries: 2, bytes: 1 } })
    await expect(buffer(few.archive)).rejects.toMatchObject({ details: { beyond: 'entries' } })
  })

  it('is not written through its own links', async () => {
    const outside = join(base, 'outside')
    mkdirSync(outside)
    const archive = rawArchive(
      { name: 'way', type: '2', link: outside },
      { name: 'way/evil', body: 'x' },
      { name: 'up', type: '2', link: '..' },
      { name: 'up/evil', body: 'x' },
      { name: 'hard', type: '1', link: 'way' },
    )
    const report = await unpackInto(target, Readable.from([archive]), LIMITS, signal, { asDisk: {} })
    expect(report.skippedCount).toBe(3)
    expect(lstatSync(join(outside, 'evil'), { throwIfNoEntry: false })).toBeUndefined()
    expect(lstatSync(join(base, 'evil'), { throwIfNoEntry: false })).toBeUndefined()
  })

  it.skipIf(!IS_ROOT)(
    'belongs completely to the user of the sandbox (skipped: only root gives files away)',
    async () => {
      mkdirSync(join(source, 'd'))
      writeFileSync(join(source, 'd/a'), 'x')
      symlinkSync('a', join(source, 'd/l'))
      await copyFolder({ owner: { uid: 2_100_000_001, gid: 2_100_000_002 } })
      for (const name of ['d', 'd/a', 'd/l'])
        expect(lstatSync(join(target, name))).toMatchObject({ uid: 2_100_000_001, gid: 2_100_000_002 })
    },
  )
})

function writeIn(name: string): string {
  writeFileSync(join(source, name), '')
  return name
}
