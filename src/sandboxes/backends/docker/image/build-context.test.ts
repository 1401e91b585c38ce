import { createHash } from 'node:crypto'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { extract } from 'tar-stream'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { buildContext, dockerfileOf } from './build-context.ts'

it('a build context contains the files with their modes, owned by root, and is the same every time', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'craik-context-'))
  try {
    const path = join(folder, 'node')
    writeFileSync(path, 'x'.repeat(3_000_000))
    const files = [
      { name: 'Dockerfile', mode: 0o644, content: Buffer.from('FROM scratch\n') },
      { name: 'craik/node', mode: 0o111, content: { path } },
      { name: 'craik/hooks/one', mode: 0o555, content: Buffer.from('x') },
    ]
    const archive = await buffer(buildContext(files, 1_767_225_600))
    const again = await buffer(buildContext(files, 1_767_225_600))
    expect(sha256(again)).toBe(sha256(archive))

    const found = await entriesOf(archive)
    const root = { uid: 0, gid: 0, mtime: 1_767_225_600 }
    expect(found).toEqual([
      { ...root, name: 'craik/', mode: 0o755, size: 0, type: 'directory' },
      { ...root, name: 'craik/hooks/', mode: 0o755, size: 0, type: 'directory' },
      { ...root, name: 'Dockerfile', mode: 0o644, size: 13, type: 'file' },
      { ...root, name: 'craik/node', mode: 0o111, size: 3_000_000, type: 'file' },
      { ...root, name: 'craik/hooks/one', mode: 0o555, size: 1, type: 'file' },
    ])
  } finally {
    rmSync(folder, { recursive: true })
  }
})

describe('a folder in a build context', () => {
  let folder: string
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'craik-tree-'))
  })
  afterEach(() => rmSync(folder, { recursive: true }))

  const buildArchive = (name: string) =>
    buffer(
      buildContext([dockerfileOf('FROM x\n')], 1_767_225_600, [
        { name: 'harness', path: join(folder, name) },
      ]),
    )

  it('is added with all its files, by name, with its modes and without its times and owners', async () => {
    const long = 'n'.repeat(120)
    for (const name of ['one', 'two']) {
      // Another order and another time.
      const files = [`b/${long}/file`, 'a/run', 'c']
      for (const path of name === 'one' ? files : files.toReversed()) {
        mkdirSync(dirname(join(folder, name, path)), { recursive: true })
        writeFileSync(join(folder, name, path), path)
        chmodSync(join(folder, name, path), path === 'a/run' ? 0o555 : 0o444)
      }
      utimesSync(join(folder, name, 'c'), name === 'one' ? 1 : 2, 3)
    }
    const archive = await buildArchive('one')
    expect(sha256(await buildArchive('two'))).toBe(sha256(archive))
    const entries = await entriesOf(archive)
    expect(entries.map(({ name, mode }) => [name, mode.toString(8)])).toEqual([
      ['Dockerfile', '644'],
      ['harness/', '755'],
      ['harness/a/', '755'],
      ['harness/a/run', '555'],
      ['harness/b/', '755'],
      [`harness/b/${long}/`, '755'],
      [`harness/b/${long}/file`, '444'],
      ['harness/c', '444'],
    ])
    expect(new Set(entries.map(({ uid, mtime }) => `${uid} ${mtime}`))).toEqual(new Set(['0 1767225600']))
  })

  it('is refused when it contains a link', async () => {
    mkdirSync(join(folder, 'one'))
    symlinkSync('/etc/passwd', join(folder, 'one/x'))
    await expect(buildArchive('one')).rejects.toThrow(/neither a file nor a folder/)
  })
})

interface Entry {
  readonly name: string
  readonly mode: number
  readonly uid: number
  readonly mtime: number
}

async function entriesOf(archive: Buffer): Promise<Entry[]> {
  const found: Entry[] = []
  const unpack = extract()
  unpack.on('entry', ({ name, mode, uid, gid, size, mtime, type }, body, next) => {
    found.push({ name, mode, uid, gid, size, mtime: mtime!.getTime() / 1000, type } as Entry)
    body.on('end', next).resume()
  })
  const done = new Promise<void>((end) => unpack.on('finish', () => end()))
  unpack.end(archive)
  await done
  return found
}

function sha256(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex')
}
