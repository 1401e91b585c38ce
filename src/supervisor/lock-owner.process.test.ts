import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { homeAt } from '../store/home.ts'
import { readLockOwner, recordLockOwner, runningLockOwner } from './lock-owner.ts'
import { ensureRunFolder, type RunFolder } from './run-folder.ts'

let root: string
let folder: RunFolder
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'craik-holder-'))
  folder = ensureRunFolder(homeAt(join(root, 'home')))
})
afterEach(() => rmSync(root, { recursive: true, force: true }))

const note = (text: string) => writeFileSync(folder.info, text, { mode: 0o600 })

describe('who holds a home', () => {
  it('is nobody before one has noted itself, and then that one, while it runs', () => {
    expect(readLockOwner(folder)).toBeUndefined()
    expect(runningLockOwner(folder)).toBeUndefined()
    recordLockOwner(folder, { version: '1.0.0', build: 'b', built_at_ms: 1 }, 5)
    expect(runningLockOwner(folder)).toBe(process.pid)
    expect(readLockOwner(folder)).toMatch(new RegExp(`^${process.pid} `))
  })

  it('is not another process that has its number now: nobody is told to kill that', () => {
    note(JSON.stringify({ pid: process.pid, process_start: '1' }))
    expect(readLockOwner(folder)).toBe(`${process.pid} 1`)
    expect(runningLockOwner(folder)).toBeUndefined()
  })

  it('is nobody when it is gone', () => {
    note(JSON.stringify({ pid: spawnSync('true').pid, process_start: '1' }))
    expect(readLockOwner(folder)).toBeUndefined()
    expect(runningLockOwner(folder)).toBeUndefined()
  })

  it.each([
    '',
    'null',
    '[]',
    '{"pid":1}',
    '{"pid":"1","process_start":"1"}',
    '{"pid":-1,"process_start":"1"}',
    '{"pid":1.5,"process_start":"1"}',
    '{"pid":1,"process_start":1}',
  ])('is nobody when the note says %j', (text) => {
    note(text)
    expect(readLockOwner(folder)).toBeUndefined()
    expect(runningLockOwner(folder)).toBeUndefined()
  })
})
