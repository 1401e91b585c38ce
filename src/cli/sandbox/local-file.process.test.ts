import { execFileSync } from 'node:child_process'
import {
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { enterFolder, LocalFile, openDestination } from './local-file.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'craik-local-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

const at = (...names: string[]) => join(folder, ...names)

async function put(typed: string, name: string, text: string, mode = 0o644): Promise<void> {
  const destination = await openDestination(typed, name)
  try {
    await using file = await LocalFile.create(destination, text.length)
    await file.write(Buffer.from(text))
    await file.commit(mode)
  } finally {
    await destination.folder.close()
  }
}

describe('a file', () => {
  it('is written to an existing folder, or gets the name that was typed', async () => {
    await put(folder, 'a.txt', '1')
    await put(`${folder}/`, 'b.txt', '2')
    await put(at('c.txt'), 'x', '3')
    await put(at('c.txt'), 'x', '4')
    expect(readdirSync(folder)).toEqual(['a.txt', 'b.txt', 'c.txt'])
    expect(readFileSync(at('c.txt'), 'utf8')).toBe('4')
  })

  it('contains what was written, whatever the size of the chunks', async () => {
    const sizes = fc.array(fc.oneof(fc.integer({ min: 0, max: 9 }), fc.integer({ min: 0, max: 1_500_000 })), {
      maxLength: 12,
    })
    await fc.assert(
      fc.asyncProperty(sizes, async (sizes) => {
        const chunks = sizes.map((size, index) => Buffer.alloc(size, index + 1))
        const destination = await openDestination(folder, 'a')
        {
          await using file = await LocalFile.create(destination, 0)
          for (const chunk of chunks) await file.write(chunk)
          await file.commit(0o644)
        }
        await destination.folder.close()
        expect(readFileSync(at('a')).equals(Buffer.concat(chunks))).toBe(true)
      }),
      { numRuns: 30 },
    )
  })

  it('gets its mode without setuid, and leaves no temporary file', async () => {
    await put(at('a'), 'a', 'text', 0o4755)
    expect(lstatSync(at('a')).mode & 0o7777).toBe(0o755 & ~process.umask())
    expect(readdirSync(folder)).toEqual(['a'])
  })

  it('does not replace the old file if it is not completed', async () => {
    writeFileSync(at('a'), 'old')
    const destination = await openDestination(at('a'), 'a')
    {
      await using file = await LocalFile.create(destination, 3)
      await file.write(Buffer.from('new'))
    }
    await destination.folder.close()
    expect(readFileSync(at('a'), 'utf8')).toBe('old')
    expect(readdirSync(folder)).toEqual(['a'])
  })

  it('replaces a link that has its name, and does not write through it', async () => {
    writeFileSync(at('victim'), 'untouched')
    // Shows what a plain write would do.
    symlinkSync(at('victim'), at('naive'))
    writeFileSync(at('naive'), 'overwritten')
    expect(readFileSync(at('victim'), 'utf8')).toBe('overwritten')

    writeFileSync(at('victim'), 'untouched')
    symlinkSync(at('victim'), at('link'))
    await put(folder, 'link', 'mine')
    expect(readFileSync(at('victim'), 'utf8')).toBe('untouched')
    expect(lstatSync(at('link')).isSymbolicLink()).toBe(false)
  })

  it('is written to the intended folder, even if a link replaces that folder meanwhile', async () => {
    mkdirSync(at('inside'))
    mkdirSync(at('elsewhere'))
    const destination = await openDestination(at('inside'), 'a')
    await using file = await LocalFile.create(destination, 1)
    renameSync(at('inside'), at('moved'))
    symlinkSync(at('elsewhere'), at('inside'))
    await file.write(Buffer.from('x'))
    await file.commit(0o644)
    await destination.folder.close()
    expect(readdirSync(at('elsewhere'))).toEqual([])
    expect(readdirSync(at('moved'))).toEqual(['a'])
  })

  it('never replaces a folder', async () => {
    mkdirSync(at('a'))
    await expect(put(folder, 'a', 'x')).rejects.toMatchObject({ code: 'conflict' })
    expect(readdirSync(folder)).toEqual(['a'])
  })

  it('never replaces a pipe, a socket or a device, even one that appears meanwhile', async () => {
    const server = createServer().listen(at('socket'))
    execFileSync('mkfifo', [at('pipe')])
    // Creates a separate device, because a failing test as root would remove the device of the host.
    if (process.getuid?.() === 0) execFileSync('mknod', [at('device'), 'c', '1', '3'])
    const before = readdirSync(folder)
    const modes = () => readdirSync(folder).map((name) => lstatSync(at(name)).mode)
    const modesBefore = modes()
    try {
      for (const name of before) {
        const refused = { code: 'conflict', message: expect.stringContaining('not a regular file') }
        await expect(put(at(name), 'x', 'text')).rejects.toMatchObject(refused)
        await expect(put(folder, name, 'text')).rejects.toMatchObject(refused)
      }
      expect(readdirSync(folder)).toEqual(before)
      expect(modes()).toEqual(modesBefore)
    } finally {
      server.close()
    }
    const destination = await openDestination(folder, 'late')
    await using file = await LocalFile.create(destination, 1)
    execFileSync('mkfifo', [at('late')])
    await expect(file.commit(0o644)).rejects.toMatchObject({ code: 'conflict' })
    expect(lstatSync(at('late')).isFIFO()).toBe(true)
    await destination.folder.close()
  })

  it('is refused before it begins if it is larger than the disk', async () => {
    const destination = await openDestination(folder, 'a')
    await expect(LocalFile.create(destination, 2 ** 52)).rejects.toMatchObject({ code: 'disk_full' })
    await destination.folder.close()
    expect(readdirSync(folder)).toEqual([])
  })
})

describe('a destination', () => {
  it('is refused behind a link', async () => {
    mkdirSync(at('real'))
    symlinkSync(at('real'), at('link'))
    await expect(openDestination(at('link'), 'a')).rejects.toMatchObject({ code: 'usage' })
    await expect(openDestination(`${at('link')}/`, 'a')).rejects.toMatchObject({ code: 'usage' })
    const destination = await openDestination(folder, 'link')
    await expect(enterFolder(destination)).rejects.toMatchObject({ code: 'usage' })
    await destination.folder.close()
  })

  it('is refused with a name that leads elsewhere', async () => {
    for (const name of ['', '.', '..', '../x', 'a/b', 'a\0'])
      await expect(openDestination(folder, name)).rejects.toMatchObject({ code: 'usage' })
  })

  it('must exist if it ends with a slash, and the folder around it must exist in any case', async () => {
    await expect(openDestination(`${at('none')}/`, 'a')).rejects.toMatchObject({ code: 'usage' })
    await expect(openDestination(at('none', 'a'), 'a')).rejects.toMatchObject({ code: 'usage' })
  })

  it('is created as a folder, and is refused if it is a file', async () => {
    const destination = await openDestination(folder, 'new')
    const made = await enterFolder(destination)
    await made.close()
    expect(lstatSync(at('new')).isDirectory()).toBe(true)
    writeFileSync(at('file'), '')
    await expect(enterFolder({ ...destination, name: 'file' })).rejects.toMatchObject({
      code: 'conflict',
    })
    await destination.folder.close()
  })
})
