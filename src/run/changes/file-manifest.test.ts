import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { NEVER_ABORTED } from '../../lib/never-aborted.fixture.ts'
import { answering } from './changes.fixture.ts'
import { changesBetween } from './file-changes.ts'
import { type FileManifest, takeManifest } from './file-manifest.ts'

const HASH = 'a'.repeat(64)
const fileLine = (path: string, rest: object = {}) => ({ t: 'f', p: path, s: 3, x: 0, h: HASH, ...rest })

function listing(...lines: readonly unknown[]): Buffer {
  return Buffer.from(lines.map((one) => `${typeof one === 'string' ? one : JSON.stringify(one)}\n`).join(''))
}

const take = (...lines: readonly unknown[]): Promise<FileManifest> =>
  takeManifest(answering([listing(...lines)]), NEVER_ABORTED)

describe('the manifest of a workspace in a sandbox', () => {
  it('is read with any chunk boundaries', async () => {
    const lines = [
      fileLine('a'),
      fileLine('b/ü', { x: 1 }),
      { t: 'l', p: 'c', to: 'b/ü' },
      { t: 'o', p: 'd', k: 'pipe' },
    ]
    const whole = listing(...lines)
    const wanted = [
      ['a', { kind: 'file', bytes: 3, executable: false, digest: HASH }],
      ['b/ü', { kind: 'file', bytes: 3, executable: true, digest: HASH }],
      ['c', { kind: 'link', target: 'b/ü' }],
      ['d', { kind: 'other', what: 'pipe' }],
    ]
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(whole.length)), async (cuts) => {
        const at = [0, ...cuts.sort((a, b) => a - b), whole.length]
        const chunks = at.slice(1).map((end, i) => whole.subarray(at[i], end))
        expect([...(await takeManifest(answering(chunks), NEVER_ABORTED)).entries]).toEqual(wanted)
      }),
    )
  })

  it.each([
    ['a path that climbs', fileLine('../x')],
    ['a path that climbs further down', fileLine('a/../../x')],
    ['an absolute path', fileLine('/etc/passwd')],
    ['an empty path', fileLine('')],
    ['a detour', fileLine('a/./b')],
    ['a doubled slash', fileLine('a//b')],
    ['a slash at the end', fileLine('a/')],
    ['a NUL', fileLine('a\0b')],
    ['half a character', '{"t":"f","p":"\\ud800","s":1,"x":0}'],
    ['a path that is too long', fileLine(`${'x/'.repeat(2100)}x`)],
    ['a negative size', fileLine('a', { s: -1 })],
    ['a size beyond counting', '{"t":"f","p":"a","s":1e300,"x":0}'],
    ['a hash that is none', fileLine('a', { h: '../../x' })],
    ['a kind that is none', { t: 'd', p: 'a' }],
    ['a member too many', fileLine('a', { mode: 4755 })],
    ['no JSON', 'hello'],
    ['a prototype', '{"__proto__":{"t":"f"}}'],
    ['a line without end', 'x'.repeat(40_000)],
  ])('is refused as a whole with %s', async (_, line) => {
    await expect(take(fileLine('fine'), line)).rejects.toMatchObject({ code: 'boundary_failed' })
  })

  it('is refused if it names a path twice, or files below something that is not a folder', async () => {
    await expect(take(fileLine('a'), fileLine('a'))).rejects.toMatchObject({ code: 'boundary_failed' })
    await expect(take({ t: 'l', p: 'a', to: '/etc' }, fileLine('a/passwd'))).rejects.toMatchObject({
      code: 'boundary_failed',
    })
  })

  it('is refused if it is truncated or endless', async () => {
    await expect(takeManifest(answering([Buffer.from('{"t":"f"')]), NEVER_ABORTED)).rejects.toMatchObject({
      code: 'boundary_failed',
    })
    const chunk = listing(...Array.from({ length: 1000 }, () => ({ t: 'u', b: 'AAAA' })))
    const endless = Array.from({ length: 201 }, () => chunk)
    await expect(takeManifest(answering(endless), NEVER_ABORTED)).rejects.toMatchObject({ code: 'too_large' })
  })

  it('never contains a path out of the workspace, for any input', async () => {
    const part = fc.constantFrom('..', '.', '', 'a', '.git', '\0', '\u202e', 'é')
    const path = fc.array(part, { maxLength: 5 }).map((parts) => parts.join('/'))
    await fc.assert(
      fc.asyncProperty(fc.oneof(path, fc.string({ unit: 'binary' })), async (output) => {
        const found = await take(fileLine(output)).catch(() => undefined)
        for (const path of found?.entries.keys() ?? []) {
          expect(path.startsWith('/')).toBe(false)
          expect(path.split('/').filter((one) => ['', '.', '..'].includes(one))).toEqual([])
        }
      }),
    )
  })
})

describe('two manifests', () => {
  const between = async (before: readonly unknown[], after: readonly unknown[]) =>
    changesBetween(await take(...before), await take(...after))

  it('have no changes between them when they are equal', async () => {
    const lines = [
      fileLine('a'),
      { t: 'l', p: 'b', to: 'a' },
      { t: 'o', p: 'c', k: 'socket' },
      { t: 'u', b: '/w==' },
    ]
    expect(await between(lines, [...lines].reverse())).toEqual({ changes: [], left: [], leftCount: 0 })
  })

  it('show added, changed, removed and replaced entries, sorted by path', async () => {
    const other = { h: 'b'.repeat(64) }
    const { changes } = await between(
      [fileLine('changed'), fileLine('gone'), fileLine('run'), fileLine('to-link')],
      [
        fileLine('changed', other),
        fileLine('run', { x: 1 }),
        fileLine('added'),
        { t: 'l', p: 'to-link', to: 'run' },
      ],
    )
    expect(
      changes.map(({ path, before, after }) => [path, before?.kind ?? null, after?.kind ?? null]),
    ).toEqual([
      ['added', null, 'file'],
      ['changed', 'file', 'file'],
      ['gone', 'file', null],
      ['run', 'file', 'file'],
      ['to-link', 'file', 'link'],
    ])
  })

  it('leave out entries that are too large, not files, named like git’s, or now hidden', async () => {
    const huge = { s: 2 ** 40, h: undefined, m: '1' }
    const { changes, left } = await between(
      [fileLine('pipe'), fileLine('shut/inner'), fileLine('huge', huge)],
      [
        { t: 'o', p: 'pipe', k: 'pipe' },
        { t: 'o', p: 'shut', k: 'unreadable' },
        fileLine('huge', { ...huge, m: '2' }),
        fileLine('.Git/config'),
        fileLine('\u200b.git/config'),
        { t: 'u', b: Buffer.from('a\u001b[2Jb').toString('base64') },
      ],
    )
    expect(changes).toEqual([])
    expect(left.map(({ path }) => path).sort()).toEqual(
      ['pipe', 'shut', 'shut/inner', 'huge', '.Git/config', '\u200b.git/config', '"a?[2Jb"'].sort(),
    )
  })
})
