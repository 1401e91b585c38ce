/**
 * Tests a home folder on the host that a sandbox may have written. Only regular files are read, and no link is
 * followed.
 */
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { homeFolder } from './home-folder.ts'
import { all } from './transcripts.fixture.ts'

let home: string
let links: string[]
const signal = new AbortController().signal
const source = () => homeFolder(home, { signal, onProblem: (path) => links.push(path) })
const write = (path: string, content: string) => {
  mkdirSync(dirname(join(home, path)), { recursive: true })
  writeFileSync(join(home, path), content)
}
const listPaths = async (folder: string, depth: number) =>
  (await all(source().list(folder, depth))).map(({ path }) => path).sort()
const text = async (path: string, maxBytes = 1000) =>
  Buffer.concat(await all(source().read(path, maxBytes))).toString()

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'craik-home-'))
  links = []
})
afterEach(() => rmSync(home, { recursive: true }))

describe('a home folder', () => {
  it('lists files down to the given depth, with their sizes', async () => {
    write('.x/a.jsonl', 'abc')
    write('.x/one/b.jsonl', '')
    write('.x/one/two/c.jsonl', '')
    write('other', '')
    expect(await listPaths('.x', 1)).toEqual(['.x/a.jsonl', '.x/one/b.jsonl'])
    expect(await all(source().list('.x', 0))).toMatchObject([{ path: '.x/a.jsonl', bytes: 3 }])
    expect(await listPaths('.nothing/at/all', 3)).toEqual([])
  })

  it('reads no more than requested', async () => {
    write('.x/a', 'x'.repeat(600_000))
    expect(await text('.x/a', 500_000)).toHaveLength(500_000)
    expect(await text('.x/a', 1_000_000)).toHaveLength(600_000)
    expect(await text('.x/none')).toBe('')
  })

  it('that does not exist causes an error', async () => {
    rmSync(home, { recursive: true })
    await expect(listPaths('.x', 1)).rejects.toMatchObject({ code: 'not_found' })
    mkdirSync(home)
  })
})

describe('a link', () => {
  it('is reported and not followed, as a file, as a folder, and as part of a path', async () => {
    const outside = mkdtempSync(join(tmpdir(), 'craik-outside-'))
    try {
      writeFileSync(join(outside, 'secret.jsonl'), 'a secret of the host')
      write('.x/real.jsonl', '')
      symlinkSync(join(outside, 'secret.jsonl'), join(home, '.x/file.jsonl'))
      symlinkSync(outside, join(home, '.x/folder'))
      symlinkSync(outside, join(home, '.y'))
      expect(await listPaths('.x', 2)).toEqual(['.x/real.jsonl'])
      expect(await listPaths('.y', 2)).toEqual([])
      expect(links.sort()).toEqual(['.x/file.jsonl', '.x/folder', '.y'])
      for (const path of ['.x/file.jsonl', '.x/folder/secret.jsonl', '.y/secret.jsonl'])
        expect(await text(path)).toBe('')
    } finally {
      rmSync(outside, { recursive: true })
    }
  })
})

describe('an entry that is not a regular file', () => {
  it('does not block a read', async () => {
    write('.x/a', '')
    execFileSync('mkfifo', [join(home, '.x/pipe.jsonl')])
    const found = await all(source().list('.x', 1))
    expect(found.map(({ path, unreadableReason: unfit }) => [path, unfit]).sort()).toEqual([
      ['.x/a', undefined],
      ['.x/pipe.jsonl', 'is a pipe'],
    ])
    expect(await text('.x/pipe.jsonl')).toBe('')
    expect(await text('.x')).toBe('')
  })
})
