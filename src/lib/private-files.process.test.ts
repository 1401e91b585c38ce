import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  chownSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createPrivateFile, ensurePrivateFolder, readPrivateFile, writePrivateFile } from './private-files.ts'

const module = JSON.stringify(join(import.meta.dirname, 'private-files.ts'))
const isRoot = process.geteuid?.() === 0
const LABEL = 'receipts key (secrets/receipts.key)'

let folder: string
let file: string
let umask: number
beforeEach(() => {
  umask = process.umask(0o022)
  folder = mkdtempSync(join(tmpdir(), 'craik-private-'))
  file = join(folder, 'receipts.key')
})
afterEach(() => {
  process.umask(umask)
  rmSync(folder, { recursive: true })
})

const mode = (path: string) => lstatSync(path).mode & 0o7777
const failure = (code: string, message: string, hint = '') =>
  expect.objectContaining({
    code,
    message: expect.stringContaining(message),
    hint: expect.stringContaining(hint),
  })

function nodeArguments(script: string): string[] {
  return ['--input-type=module', '-e', `const files = await import(${module})\n${script}`]
}

describe('ensurePrivateFolder', () => {
  it('creates every missing folder with mode 0700, and accepts it the next time', () => {
    const path = join(folder, 'a', 'b', 'c')
    ensurePrivateFolder(path, 'home folder')
    for (const created of ['a', 'a/b', 'a/b/c']) expect(mode(join(folder, created))).toBe(0o700)
    ensurePrivateFolder(path, 'home folder')
  })

  it('does not change the mode of the folders above', () => {
    const above = join(folder, 'above')
    mkdirSync(above, { mode: 0o755 })
    ensurePrivateFolder(join(above, 'home'), 'home folder')
    expect(mode(above)).toBe(0o755)
  })

  it.each([0o740, 0o720, 0o710, 0o704, 0o702, 0o701, 0o755, 0o777])(
    'refuses an existing folder with mode %o and shows how to make it private',
    (open) => {
      const path = join(folder, 'my home')
      mkdirSync(path)
      chmodSync(path, open)
      expect(() => ensurePrivateFolder(path, 'home folder')).toThrow(
        failure(
          'key_exposed',
          `home folder is open to other users (mode 0${open.toString(8)})`,
          `chmod 700 '${path}'`,
        ),
      )
      expect(mode(path)).toBe(open)
    },
  )

  it.each(['', '/'])('refuses a link to a private folder, written with %j at its end', (ending) => {
    const real = join(folder, 'real')
    mkdirSync(real, { mode: 0o700 })
    symlinkSync(real, join(folder, 'link'))
    expect(() => ensurePrivateFolder(join(folder, 'link') + ending, 'home folder')).toThrow(
      failure('key_exposed', 'symbolic link'),
    )
  })

  it('refuses a dangling link, and creates nothing through it', () => {
    symlinkSync(join(folder, 'elsewhere'), join(folder, 'link'))
    expect(() => ensurePrivateFolder(join(folder, 'link'), 'home folder')).toThrow(
      failure('key_exposed', 'symbolic link'),
    )
    expect(existsSync(join(folder, 'elsewhere'))).toBe(false)
  })

  it('refuses a file with that name, and a path below a file', () => {
    writeFileSync(file, '', { mode: 0o600 })
    expect(() => ensurePrivateFolder(file, 'home folder')).toThrow(failure('home_unwritable', 'not a folder'))
    expect(() => ensurePrivateFolder(join(file, 'x'), 'home folder')).toThrow(
      failure('home_unwritable', 'cannot create the home folder (ENOTDIR)'),
    )
  })

  it('refuses a folder that belongs to another user, even as root', (context) => {
    if (!isRoot) return context.skip('only root can give a folder to another user')
    const path = join(folder, 'theirs')
    mkdirSync(path, { mode: 0o700 })
    chownSync(path, 65534, 65534)
    expect(() => ensurePrivateFolder(path, 'home folder')).toThrow(
      failure('key_exposed', 'belongs to another user (uid 65534)', 'set CRAIK_HOME to a folder of your own'),
    )
  })
})

describe('readPrivateFile', () => {
  it('reads a private file up to the given size', () => {
    writeFileSync(file, 'secret', { mode: 0o600 })
    expect(readPrivateFile(file, 6, LABEL).toString()).toBe('secret')
    chmodSync(file, 0o400)
    expect(readPrivateFile(file, 100, LABEL).toString()).toBe('secret')
    expect(() => readPrivateFile(file, 5, LABEL)).toThrow(failure('key_unreadable', 'longer than 5 bytes'))
  })

  it.each([0o640, 0o620, 0o610, 0o604, 0o602, 0o601, 0o644, 0o666])(
    'refuses a file with mode %o and shows how to make it private',
    (open) => {
      writeFileSync(file, 'secret')
      chmodSync(file, open)
      expect(() => readPrivateFile(file, 100, LABEL)).toThrow(
        failure(
          'key_exposed',
          `the ${LABEL} is open to other users (mode 0${open.toString(8)})`,
          `chmod 600 ${file}`,
        ),
      )
    },
  )

  it('refuses a link to a private file', () => {
    writeFileSync(join(folder, 'real'), 'secret', { mode: 0o600 })
    symlinkSync('real', file)
    expect(() => readPrivateFile(file, 100, LABEL)).toThrow(failure('key_exposed', 'symbolic link'))
  })

  it('refuses a folder and a named pipe instead of waiting for them', () => {
    mkdirSync(join(folder, 'sub'), { mode: 0o700 })
    expect(() => readPrivateFile(join(folder, 'sub'), 100, LABEL)).toThrow(
      failure('key_exposed', 'not a regular file'),
    )
    expect(spawnSync('mkfifo', ['-m', '600', file]).status).toBe(0)
    expect(() => readPrivateFile(file, 100, LABEL)).toThrow(failure('key_exposed', 'not a regular file'))
  })

  it('names a missing file by its label and never by its path', () => {
    expect(() => readPrivateFile(file, 100, LABEL)).toThrow(
      failure('key_unreadable', `the ${LABEL} does not exist`),
    )
    expect(() => readPrivateFile(file, 100, LABEL)).not.toThrow(folder)
  })

  it('refuses a file that belongs to another user, even as root', (context) => {
    if (!isRoot) return context.skip('only root can give a file to another user')
    writeFileSync(file, 'secret', { mode: 0o600 })
    chownSync(file, 65534, 65534)
    expect(() => readPrivateFile(file, 100, LABEL)).toThrow(
      failure('key_exposed', 'belongs to another user (uid 65534)', `chown 0 ${file}`),
    )
  })
})

describe('createPrivateFile', () => {
  it.each([0o022, 0o000, 0o377])(
    'creates the file with mode 0600 whatever the umask (%o), and leaves no other file',
    (mask) => {
      process.umask(mask)
      expect(createPrivateFile(file, 'one', LABEL)).toBe(true)
      process.umask(0o022)
      expect(mode(file)).toBe(0o600)
      expect(statSync(file).nlink).toBe(1)
      expect(readdirSync(folder)).toEqual(['receipts.key'])
      expect(readPrivateFile(file, 100, LABEL).toString()).toBe('one')
    },
  )

  it('leaves an existing file unchanged, and reports that', () => {
    createPrivateFile(file, 'one', LABEL)
    expect(createPrivateFile(file, 'two', LABEL)).toBe(false)
    expect(readFileSync(file, 'utf8')).toBe('one')
    expect(readdirSync(folder)).toEqual(['receipts.key'])
  })

  it('does not write through a dangling link', () => {
    symlinkSync(join(folder, 'elsewhere'), file)
    expect(createPrivateFile(file, 'one', LABEL)).toBe(false)
    expect(readdirSync(folder)).toEqual(['receipts.key'])
  })

  it('lets exactly one of many processes win, and the others read the complete content of the winner', async () => {
    const script = `
      const mine = String(process.pid).padEnd(65536, '.')
      process.stdin.once('data', () => {
        const won = files.createPrivateFile(${JSON.stringify(file)}, mine)
        const found = files.readPrivateFile(${JSON.stringify(file)}, 65536).toString()
        console.log(JSON.stringify({ won, whole: found.length === 65536, mine: found === mine }))
        process.exit()
      })
      console.log('ready')`
    const racers = Array.from({ length: 8 }, () => {
      const child = spawn(process.execPath, nodeArguments(script), { stdio: ['pipe', 'pipe', 'inherit'] })
      let output = ''
      child.stdout.setEncoding('utf8').on('data', (text: string) => {
        output += text
      })
      return { child, output: () => output, closed: once(child, 'close') }
    })
    await Promise.all(racers.map(({ child }) => once(child.stdout, 'data')))
    for (const { child } of racers) child.stdin.write('go')
    await Promise.all(racers.map(({ closed }) => closed))
    const results: { won: boolean; whole: boolean; mine: boolean }[] = racers.map(({ output }) =>
      JSON.parse(output().split('\n')[1]!),
    )
    expect(results.filter(({ won }) => won)).toHaveLength(1)
    expect(results.every(({ won, whole, mine }) => whole && won === mine)).toBe(true)
    expect(readdirSync(folder)).toEqual(['receipts.key'])
  })
})

describe('writePrivateFile', () => {
  it('replaces the content, and makes a file private that was open to others', () => {
    writeFileSync(file, 'old', { mode: 0o644 })
    writePrivateFile(file, 'new', LABEL)
    expect(readPrivateFile(file, 100, LABEL).toString()).toBe('new')
    expect(mode(file)).toBe(0o600)
    expect(readdirSync(folder)).toEqual(['receipts.key'])
  })

  it('replaces a link itself, not its target', () => {
    writeFileSync(join(folder, 'real'), 'old', { mode: 0o600 })
    symlinkSync('real', file)
    writePrivateFile(file, 'new', LABEL)
    expect(readFileSync(join(folder, 'real'), 'utf8')).toBe('old')
    expect(readPrivateFile(file, 100, LABEL).toString()).toBe('new')
  })

  it('keeps the old content under another name of the old file', () => {
    writeFileSync(file, 'old', { mode: 0o600 })
    linkSync(file, join(folder, 'other'))
    writePrivateFile(file, Buffer.from('new'), LABEL)
    expect(readFileSync(join(folder, 'other'), 'utf8')).toBe('old')
  })
})

describe.each(['createPrivateFile', 'writePrivateFile'] as const)('%s, when it cannot write', (name) => {
  const write = { createPrivateFile, writePrivateFile }[name]
  const attempt = `
    try { files.${name}(process.argv[1] + '/receipts.key', Buffer.alloc(1 << 20), 'receipts key') }
    catch (error) { console.log(error.code + ': ' + error.message) }`

  it('reports that the folder is missing or a file', () => {
    expect(() => write(join(folder, 'none', 'key'), 'x', LABEL)).toThrow(
      failure('home_unwritable', `(ENOENT)`),
    )
    writeFileSync(file, '')
    expect(() => write(join(file, 'key'), 'x', LABEL)).toThrow(failure('home_unwritable', `(ENOTDIR)`))
  })

  it('reports that the folder is not writable', () => {
    chmodSync(folder, 0o555)
    const drop = isRoot ? 'process.setgroups([]); process.setegid(65534); process.seteuid(65534)' : ''
    const { stdout } = spawnSync(process.execPath, [...nodeArguments(`${drop}\n${attempt}`), folder])
    chmodSync(folder, 0o700)
    expect(stdout.toString()).toBe('home_unwritable: cannot write the receipts key (EACCES)\n')
    expect(readdirSync(folder)).toEqual([])
  })

  for (const [message, options] of [
    ['disk_full: no space left to write the receipts key', 'size=64k'],
    ['home_unwritable: cannot write the receipts key (EROFS)', 'ro'],
  ]) {
    it(`reports ${message}, and leaves nothing behind`, (context) => {
      const mount = ['-rm', 'sh', '-ec', `mount -t tmpfs -o ${options} none "$0"; "$@"; ls -A "$0"`, folder]
      if (spawnSync('unshare', [...mount, 'true']).status !== 0) {
        return context.skip('this machine does not let tests mount a small file system')
      }
      const { stdout } = spawnSync('unshare', [...mount, process.execPath, ...nodeArguments(attempt), folder])
      expect(stdout.toString()).toBe(`${message}\n`)
    })
  }
})
