import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { extract } from 'tar-stream'
import { expect, it } from 'vitest'
import { buildContext } from './build-context.ts'

it('an archive to build from holds the files with their modes, owned by root, and is the same every time', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'craik-context-'))
  try {
    const path = join(folder, 'node')
    writeFileSync(path, 'x'.repeat(3_000_000))
    const files = [
      { name: 'Dockerfile', mode: 0o644, content: Buffer.from('FROM scratch\n') },
      { name: 'craik/node', mode: 0o111, content: { path } },
    ]
    const archive = await buffer(buildContext(files, 1_767_225_600))
    const again = await buffer(buildContext(files, 1_767_225_600))
    expect(sha256(again)).toBe(sha256(archive))

    const found: unknown[] = []
    const unpack = extract()
    unpack.on('entry', ({ name, mode, uid, gid, size, mtime, type }, body, next) => {
      found.push({ name, mode, uid, gid, size, mtime: mtime!.getTime() / 1000, type })
      body.on('end', next).resume()
    })
    const done = new Promise<void>((end) => unpack.on('finish', () => end()))
    unpack.end(archive)
    await done
    const root = { uid: 0, gid: 0, mtime: 1_767_225_600 }
    expect(found).toEqual([
      { ...root, name: 'craik/', mode: 0o755, size: 0, type: 'directory' },
      { ...root, name: 'Dockerfile', mode: 0o644, size: 13, type: 'file' },
      { ...root, name: 'craik/node', mode: 0o111, size: 3_000_000, type: 'file' },
    ])
  } finally {
    rmSync(folder, { recursive: true })
  }
})

function sha256(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex')
}
