import { execFileSync } from 'node:child_process'
import {
  appendFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { followLines, lastLines } from './log-tail.ts'
import { openLogFile, openSupervisorLog } from './supervisor-log.ts'

let folder: string
let path: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'craik-log-'))
  path = join(folder, 'supervisor.log')
})
afterEach(() => rmSync(folder, { recursive: true }))

const read = (file = path) =>
  readFileSync(file, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>)

describe('the supervisor’s log', () => {
  it('writes one line of JSON for each message, in a file that only its owner can read', () => {
    using log = openSupervisorLog(path, () => 0)
    log.write('info', 'started', { version: '1.2.3' })
    log.write('warn', 'odd')
    expect(read()).toEqual([
      {
        at: '1970-01-01T00:00:00.000Z',
        level: 'info',
        message: 'started',
        pid: process.pid,
        version: '1.2.3',
      },
      { at: '1970-01-01T00:00:00.000Z', level: 'warn', message: 'odd', pid: process.pid },
    ])
    expect(statSync(path).mode & 0o777).toBe(0o600)
  })

  it.each([
    ['a named pipe', () => execFileSync('mkfifo', ['-m', '600', path])],
    ['a link to a file', () => symlinkSync('other', path)],
    ['a link to a device', () => symlinkSync('/dev/zero', path)],
  ])('is refused at once, with its path, when it is %s', (_, make) => {
    writeFileSync(join(folder, 'other'), 'mine\n')
    make()
    const refused = { code: 'home_unwritable', message: expect.stringContaining(`${path} is not a regular`) }
    for (const open of [() => openLogFile(path), () => lastLines(path, 1)])
      expect(open).toThrow(expect.objectContaining(refused))
    using log = openSupervisorLog(path, () => 0)
    log.write('info', 'lost')
    expect(readFileSync(join(folder, 'other'), 'utf8')).toBe('mine\n')
  })

  it('is rotated by size and never exceeds its number of files', () => {
    using log = openSupervisorLog(path, () => 0, { files: 3, fileBytes: 1_000 })
    for (let i = 0; i < 100; i++) log.write('info', `message ${i}`)
    expect(readdirSync(folder).sort()).toEqual(['supervisor.log', 'supervisor.log.1', 'supervisor.log.2'])
    const stored = ['.2', '.1', ''].flatMap((suffix) =>
      read(`${path}${suffix}`).map(({ message }) => message),
    )
    expect(stored.at(-1)).toBe('message 99')
    expect(stored).toEqual(Array.from(stored, (_, i) => `message ${100 - stored.length + i}`))
    for (const file of readdirSync(folder)) {
      expect(statSync(join(folder, file)).size).toBeLessThanOrEqual(1_000)
      expect(statSync(join(folder, file)).mode & 0o777).toBe(0o600)
    }
  })

  it('contains no secret', () => {
    using log = openSupervisorLog(path, () => 0)
    const token = `ghp_${'a1B2'.repeat(9)}`
    log.write('error', `the request said authorization: Bearer ${token}`, {
      api_key: 'hunter2hunter2',
      stack: token,
    })
    const text = readFileSync(path, 'utf8')
    expect(text).not.toContain(token)
    expect(text).not.toContain('hunter2')
  })

  it('shortens a line that is too long', () => {
    using log = openSupervisorLog(path, () => 0)
    log.write('error', 'x'.repeat(100_000))
    expect(read()[0]).toMatchObject({ level: 'error', shortened: true })
  })

  it('does not throw when it cannot be written', () => {
    using log = openSupervisorLog(join(folder, 'missing', 'log'), () => 0)
    expect(() => log.write('info', 'lost')).not.toThrow()
  })
})

describe('the end of the log', () => {
  it('consists of the last complete lines, however long the log is', () => {
    writeFileSync(path, Array.from({ length: 50_000 }, (_, i) => `line ${i}\n`).join(''))
    expect(lastLines(path, 2)).toEqual(['line 49998', 'line 49999'])
    expect(lastLines(path, 10_000_000).every((line) => /^line \d+$/.test(line))).toBe(true)
    expect(lastLines(path, 0)).toEqual([])
    expect(lastLines(join(folder, 'none'), 2)).toEqual([])
  })

  it('continues in the next file when the log is rotated', async () => {
    using log = openSupervisorLog(path, () => 0, { files: 2, fileBytes: 500 })
    log.write('info', 'before')
    const stop = new AbortController()
    const seen: string[] = []
    const following = (async () => {
      for await (const line of followLines(path, 0, stop.signal)) {
        seen.push((JSON.parse(line) as { message: string }).message)
        if (seen.at(-1) === 'last') stop.abort()
      }
    })()
    await new Promise((done) => setTimeout(done, 50))
    log.write('info', 'after')
    await expect.poll(() => seen).toEqual(['after'])
    for (let _i = 0; !existsSync(`${path}.1`); _i++) log.write('info', 'filling')
    log.write('info', 'last')
    await following
    expect(seen.at(-1)).toBe('last')
  })

  /** Follows the log while `write` writes to it. Returns the new lines, up to the one that is `last`. */
  async function follow(write: () => void): Promise<readonly string[]> {
    const stop = AbortSignal.timeout(10_000)
    const seen: string[] = []
    // The first step of the generator runs before `write`.
    const lines = followLines(path, 0, stop)
    const first = lines.next()
    write()
    for (let step = await first; !step.done; step = await lines.next()) {
      seen.push(step.value)
      if (step.value === 'last') break
    }
    await lines.return(undefined)
    return seen
  }

  it('includes lines that were written just before the log was rotated', async () => {
    writeFileSync(path, 'before\n')
    const seen = await follow(() => {
      appendFileSync(path, 'late\n')
      renameSync(path, `${path}.1`)
      writeFileSync(path, 'last\n')
    })
    expect(seen).toEqual(['late', 'last'])
  })

  it('includes lines of a log that did not exist before', async () => {
    expect(await follow(() => writeFileSync(path, 'first\nlast\n'))).toEqual(['first', 'last'])
  })

  it('keeps characters of several bytes, however long a line is', async () => {
    writeFileSync(path, '')
    const line = `x${'ä'.repeat(300_000)}`
    expect(await follow(() => appendFileSync(path, `${line}\nlast\n`))).toEqual([line, 'last'])
  })
})
