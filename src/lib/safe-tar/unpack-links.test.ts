/** Links in archives from a hostile sandbox. Each attack is first shown to work on an unpacker that follows links. */
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { rawArchive, rawEntry, unpackNaively } from './archive.fixture.ts'
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

describe('links', () => {
  it('that lead outside are skipped, and an entry below such a link stays inside', async () => {
    const archive = rawArchive({ name: 'out', type: '2', link: '../..' }, { name: 'out/escaped', body: 'x' })
    await unpackNaively(naive, archive)
    expect(existsSync(join(base, 'escaped'))).toBe(true)
    rmSync(join(base, 'escaped'))
    const report = await unpack(archive)
    expect(report.skipped).toEqual([{ path: '"out"', reason: 'link leads outside' }])
    // Without the link, its name is free for the folder that the next entry needs.
    expect(everythingBelow(target)).toEqual(['out', 'out/escaped'])
    expect(readdirSync(base)).toEqual(['in'])
  })

  it('that lead outside only in combination are skipped', async () => {
    const archive = rawArchive(
      { name: 'x/y/', type: '5', mode: 0o755 },
      { name: 'x/y/up', type: '2', link: '../..' },
      { name: 'chain', type: '2', link: 'x/y/up/../..' },
      { name: 'chain/escaped', body: 'x' },
    )
    await unpackNaively(naive, archive)
    expect(existsSync(join(base, 'escaped'))).toBe(true)
    rmSync(join(base, 'escaped'))
    const report = await unpack(archive)
    expect(report.skipped).toEqual([{ path: '"chain"', reason: 'link leads outside' }])
    expect(readdirSync(base)).toEqual(['in'])
  })

  it('never give a file of the host a second name', async () => {
    writeFileSync(join(target, 'secret'), 'ours')
    const archive = rawArchive(
      { name: 'stolen', type: '1', link: 'secret' },
      { name: 'brought', body: 'theirs' },
      { name: 'again', type: '1', link: 'brought' },
    )
    const report = await unpack(archive)
    expect(report.skipped).toEqual([{ path: '"stolen"', reason: 'link to nothing' }])
    expect(everythingBelow(target)).toEqual(['again', 'brought', 'secret'])
    expect(readFileSync(join(target, 'again'), 'utf8')).toBe('theirs')
  })

  it('inside the folder are not followed either', async () => {
    writeFileSync(join(target, 'mine'), 'untouched')
    const archive = rawArchive(
      { name: 'dir/', type: '5', mode: 0o755 },
      { name: 'alias', type: '2', link: 'dir' },
      { name: 'alias/f', body: 'x' },
      { name: 'to-mine', type: '2', link: 'mine' },
      { name: 'to-mine', body: 'theirs' },
    )
    const report = await unpack(archive)
    expect(report.skipped).toEqual([{ path: '"alias/f"', reason: 'a link or file is in the way' }])
    expect(readFileSync(join(target, 'mine'), 'utf8')).toBe('untouched')
    expect(readFileSync(join(target, 'to-mine'), 'utf8')).toBe('theirs')
  })

  it('that existed in the target before are not followed', async () => {
    const outside = join(base, 'outside')
    mkdirSync(outside)
    writeFileSync(join(outside, 'secret'), 'kept')
    for (const folder of [target, naive]) {
      symlinkSync(outside, join(folder, 'cache'))
      symlinkSync(join(outside, 'secret'), join(folder, 'conf'))
    }
    const archive = rawArchive(
      { name: 'cache/planted', body: 'x' },
      { name: 'conf', body: 'overwritten' },
      { name: 'cache/', type: '5', mode: 0o777 },
    )
    await unpackNaively(naive, archive.subarray(0, 2048 + 1024))
    expect(existsSync(join(outside, 'planted'))).toBe(true)
    expect(readFileSync(join(outside, 'secret'), 'utf8')).toBe('overwritten')
    rmSync(join(outside, 'planted'))
    writeFileSync(join(outside, 'secret'), 'kept')
    const report = await unpack(archive)
    expect(report.skippedCount).toBe(2)
    expect(readdirSync(outside)).toEqual(['secret'])
    expect(readFileSync(join(outside, 'secret'), 'utf8')).toBe('kept')
    expect(readFileSync(join(target, 'conf'), 'utf8')).toBe('overwritten')
  })

  it('planted between two entries, in place of a folder that was just created, are not followed', async () => {
    const outside = join(base, 'outside')
    mkdirSync(outside)
    const archive = new PassThrough()
    const done = unpackInto(target, archive, UNPACK_LIMITS, never())
    archive.write(rawEntry({ name: 'work/one', body: '1' }))
    while (!existsSync(join(target, 'work/one'))) await sleep(2)
    // A program in the sandbox can write to the target, because it is the workspace itself (in place).
    renameSync(join(target, 'work'), join(target, 'aside'))
    symlinkSync(outside, join(target, 'work'))
    archive.write(rawEntry({ name: 'other/x', body: 'x' }))
    archive.write(rawEntry({ name: 'work/two', body: '2' }))
    archive.end(Buffer.concat([rawEntry({ name: 'work/sub/three', body: '3' }), Buffer.alloc(1024)]))
    const report = await done
    expect(report.skippedCount).toBe(2)
    expect(readdirSync(outside)).toEqual([])
  })

  it('that another process swaps all the time never let a byte escape', async () => {
    const outside = join(base, 'outside')
    mkdirSync(outside)
    const entries = Array.from({ length: 400 }, (_, at) => ({ name: `d/sub${at % 2}/f${at}`, body: 'x' }))
    const swapping = new AbortController()
    const swapper = (async () => {
      while (!swapping.signal.aborted) {
        try {
          renameSync(join(target, 'd'), join(target, 'real'))
          symlinkSync(outside, join(target, 'd'))
          await sleep(0)
          rmSync(join(target, 'd'))
          renameSync(join(target, 'real'), join(target, 'd'))
        } catch {
          rmSync(join(target, 'real'), { recursive: true, force: true })
        }
        await sleep(0)
      }
    })()
    await unpack(rawArchive(...entries)).catch(() => {})
    swapping.abort()
    await swapper
    expect(readdirSync(outside)).toEqual([])
  })

  it('that are hard do not lead outside, and nothing is written through them', async () => {
    const secret = join(base, 'in/secret')
    writeFileSync(secret, 'kept')
    const archive = rawArchive(
      { name: 'grab', type: '1', link: '../secret' },
      { name: 'grab', body: 'overwritten' },
    )
    await unpackNaively(naive, archive)
    expect(readFileSync(secret, 'utf8')).toBe('overwritten')
    writeFileSync(secret, 'kept')
    await expect(unpack(archive)).rejects.toThrow('contains ..')
    writeFileSync(join(target, 'own'), 'kept')
    const inner = rawArchive({ name: 'copy', type: '1', link: 'own' }, { name: 'copy', body: 'new' })
    await unpack(inner)
    expect([readFileSync(secret, 'utf8'), readFileSync(join(target, 'own'), 'utf8')]).toEqual([
      'kept',
      'kept',
    ])
  })

  it('that are hard and lead through or to a link are skipped', async () => {
    symlinkSync('/etc', join(target, 'etc'))
    symlinkSync('/etc/passwd', join(target, 'pw'))
    const report = await unpack(
      rawArchive(
        { name: 'a', type: '1', link: 'etc/passwd' },
        { name: 'b', type: '1', link: 'pw' },
        { name: 'c', type: '1', link: 'missing/x' },
        { name: 'd', type: '1', link: '.' },
      ),
    )
    expect(report.skipped.map(({ reason }) => reason)).toEqual(Array(4).fill('link to nothing'))
    expect(readdirSync(target).sort()).toEqual(['etc', 'pw'])
  })
})
