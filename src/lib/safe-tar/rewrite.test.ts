import { lstatSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { pax, type RawEntry, rawArchive, unpackNaively } from './archive.fixture.ts'
import { readTar } from './read-tar.ts'
import { rewriteTar } from './rewrite.ts'
import { never, UNPACK_LIMITS, unpackFolders } from './unpack.fixture.ts'

async function rewriteEntries(entries: readonly RawEntry[], options = {}) {
  const source = Readable.from([rawArchive(...entries)])
  const { archive, report } = rewriteTar(source, { signal: never(), limits: UNPACK_LIMITS, ...options })
  return { archive: await buffer(archive), report: report() }
}

const names = async (archive: Buffer) => {
  const found: string[] = []
  for await (const { name } of readTar(Readable.from([archive]), never())) found.push(name)
  return found
}

/** Lists everything outside of the target, without following links. */
function listOutside(folder: string, target: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name)
    if (path === target) return [`${path} ${entry.isDirectory()}`]
    return [path, ...(entry.isDirectory() ? listOutside(path, target) : [])]
  })
}

describe('a rewritten archive', () => {
  it('contains what the original contained, under normalized names', async () => {
    const { archive, report } = await rewriteEntries([
      { name: './', type: '5', mode: 0o755 },
      { name: './a//b', body: 'hello', mode: 0o4755 },
      { name: 'a/c', type: '1', link: './a/b' },
      { name: 'd', type: '2', link: '/anywhere' },
    ])
    expect(await names(archive)).toEqual(['a/b', 'a/c', 'd'])
    expect(report).toMatchObject({ files: 1, folders: 0, links: 2, bytes: 5, skippedCount: 0 })
    const { base, target } = unpackFolders()
    try {
      await unpackNaively(target, archive)
      expect(readFileSync(join(target, 'a/c'), 'utf8')).toBe('hello')
      expect(lstatSync(join(target, 'a/b')).mode & 0o7777).toBe(0o755)
    } finally {
      rmSync(base, { recursive: true })
    }
  })

  it('leaves out what is excluded, with everything below it and every link to it', async () => {
    const { archive, report } = await rewriteEntries(
      [
        { name: 'login', type: '5' },
        { name: 'login/token', body: 'x' },
        { name: 'login-not', body: 'y' },
        { name: 'also', type: '1', link: 'login/token' },
      ],
      { exclude: (path: string) => path === 'login' },
    )
    expect(await names(archive)).toEqual(['login-not'])
    expect(report).toMatchObject({ files: 1, skipped: [{ reason: 'link to nothing' }] })
  })

  it('states the owner of its entries', async () => {
    const { archive } = await rewriteEntries([{ name: 'a', body: 'x' }], { owner: { uid: 1000, gid: 1001 } })
    expect([archive.toString('latin1', 108, 115), archive.toString('latin1', 116, 123)]).toEqual([
      '0001750',
      '0001751',
    ])
  })

  it('contains no devices, and reports those that it skipped', async () => {
    const { archive, report } = await rewriteEntries([
      { name: 'null', type: '3' },
      { name: 'pipe', type: '6' },
    ])
    expect(await names(archive)).toEqual([])
    expect(report.skipped.map(({ reason }) => reason)).toEqual(['device', 'fifo'])
  })

  it('contains no names that Craik does not unpack, and reports those that it skipped', async () => {
    const long = (name: string, entry: Omit<RawEntry, 'name'>) => [
      { name: 'p', type: 'x', body: pax('path', name) },
      { name: 'x', ...entry },
    ]
    const { archive, report } = await rewriteEntries([
      ...long('a/'.repeat(256), { type: '5' }),
      ...long('a/'.repeat(257), { type: '5' }),
      ...long(`${'abcdefghi/'.repeat(401)}x`, { body: 'x' }),
      { name: 'p', type: 'x', body: pax('linkpath', 'abcdefghi/'.repeat(401)) },
      { name: 'hard', type: '1' },
    ])
    expect(await names(archive)).toEqual(['a/'.repeat(256)])
    expect(report).toMatchObject({
      folders: 1,
      skippedCount: 3,
      skippedFor: [
        { reason: 'name is too long', count: 1 },
        { reason: 'too deep', count: 1 },
        { reason: 'link to nothing', count: 1 },
      ],
    })
  })

  it.each([
    ['an absolute name', { name: '/etc/x' }],
    ['a name that leads upwards', { name: 'a/../../x' }],
    ['a link to what is above', { name: 'x', type: '1', link: '../x' }],
    ['another target', { name: '.', body: 'x' }],
  ])('is refused for %s', async (_, entry) => {
    await expect(rewriteEntries([entry])).rejects.toMatchObject({ code: 'boundary_failed' })
  })

  it.each(['entries', 'bytes'] as const)('is refused for more %s than the limit', async (of) => {
    const entries = [
      { name: 'a', body: 'xx' },
      { name: 'b', body: 'xx' },
    ]
    const limits = { ...UNPACK_LIMITS, [of]: of === 'bytes' ? 3 : 1 }
    await expect(rewriteEntries(entries, { limits })).rejects.toMatchObject({ code: 'too_large' })
  })

  it('is refused for more bytes than the limit, also in what it leaves out', async () => {
    const entries = [
      { name: 'login', body: 'xx' },
      { name: 'p', type: 'x', body: pax('path', `${'abcdefghi/'.repeat(401)}x`) },
      { name: 'x', body: 'xx' },
      { name: 'a', body: 'x' },
    ]
    const exclude = (path: string) => path === 'login'
    const rewrite = (bytes: number) => rewriteEntries(entries, { exclude, limits: { entries: 10, bytes } })
    await expect(rewrite(4)).rejects.toMatchObject({ details: { beyond: 'bytes' } })
    expect((await rewrite(5)).report).toMatchObject({ files: 1, bytes: 1, announcedBytes: 1 })
  })

  it('leads no unpacker out of the target folder', async () => {
    const name = fc
      .array(fc.constantFrom('a', 'b', 'up', '.'), { minLength: 1, maxLength: 4 })
      .map((parts) => parts.join('/'))
    const entry = fc.record({
      name,
      type: fc.constantFrom('0', '1', '2', '5'),
      link: fc.constantFrom('..', '../naive', 'a', 'a/b', 'up/a', 'b'),
      body: fc.constant(''),
    })
    await fc.assert(
      fc.asyncProperty(fc.array(entry, { maxLength: 8 }), async (entries) => {
        const { base, target } = unpackFolders()
        const before = listOutside(base, target)
        try {
          const made = await rewriteEntries(entries).catch(() => undefined)
          if (made === undefined) return
          await unpackNaively(target, made.archive).catch(() => {})
          expect(listOutside(base, target)).toEqual(before)
        } finally {
          rmSync(base, { recursive: true })
        }
      }),
    )
  })
})
