import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { SideLog, sideLogPath, sweepUnfinished } from './side-log.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'craik-side-log-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

describe('a side log', () => {
  it('has the name of its content hash, and is private and redacted', () => {
    using log = new SideLog(folder)
    const shown = log.write(Buffer.from('API_TOKEN=abc123def456\nplain\n'))
    const { rest, summary } = log.finish()
    const path = sideLogPath(folder, summary.sha256)
    expect(readFileSync(path, 'utf8')).toBe(shown + rest)
    expect(shown + rest).not.toContain('abc123def456')
    expect(statSync(path).mode & 0o777).toBe(0o600)
    expect(summary).toMatchObject({ complete: true, labels: ['key_value'] })
  })

  it('joins a character that was split across two chunks', () => {
    using log = new SideLog(folder)
    const bytes = Buffer.from('né\n')
    const shown = log.write(bytes.subarray(0, 2)) + log.write(bytes.subarray(2))
    expect(shown + log.finish().rest).toBe('né\n')
  })

  it('repairs an older file of the same name that was edited', () => {
    const write = () => {
      using log = new SideLog(folder)
      log.write(Buffer.from('same\n'))
      return sideLogPath(folder, log.finish().summary.sha256)
    }
    writeFileSync(write(), 'edited\n')
    expect(readFileSync(write(), 'utf8')).toBe('same\n')
  })

  it('leaves nothing behind when it is aborted', () => {
    {
      using log = new SideLog(folder)
      log.write(Buffer.from('x'))
    }
    expect(readdirSync(folder)).toEqual([])
  })
})

describe('sweeping', () => {
  it('removes the unfinished logs of dead processes and keeps all others', () => {
    using log = new SideLog(folder)
    log.write(Buffer.from('x\n'))
    const dead = execFileSync('sh', ['-c', 'echo $$']).toString().trim()
    writeFileSync(join(folder, `.${dead}.0123456789abcdef.part`), 'half')
    writeFileSync(join(folder, `${'0'.repeat(64)}.log`), '')
    sweepUnfinished(folder)
    expect(readdirSync(folder)).toHaveLength(2)
    expect(readdirSync(folder).some((name) => name.startsWith(`.${dead}.`))).toBe(false)
  })
})

describe('the path of a side log', () => {
  it.each(['', '../../../etc/passwd', 'A'.repeat(64), `${'0'.repeat(63)}/`, `${'0'.repeat(64)}\n`])(
    'is refused for an invalid digest: %j',
    (digest) => {
      expect(() => sideLogPath(folder, digest)).toThrow(TypeError)
    },
  )
})
