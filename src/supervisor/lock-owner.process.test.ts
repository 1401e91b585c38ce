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

const writeInfo = (text: string) => writeFileSync(folder.info, text, { mode: 0o600 })

describe('the recorded owner of a home', () => {
  it('is undefined before a process records itself, and then is that process while it runs', () => {
    expect(readLockOwner(folder)).toBeUndefined()
    expect(runningLockOwner(folder)).toBeUndefined()
    recordLockOwner(folder, { version: '1.0.0', build: 'b', built_at_ms: 1 }, 5)
    expect(runningLockOwner(folder)).toBe(process.pid)
    expect(readLockOwner(folder)).toMatch(new RegExp(`^${process.pid} `))
  })

  it('does not count as running when another process has its pid, so that no message tells a user to kill that process', () => {
    writeInfo(JSON.stringify({ pid: process.pid, process_start: '1' }))
    expect(readLockOwner(folder)).toBe(`${process.pid} 1`)
    expect(runningLockOwner(folder)).toBeUndefined()
  })

  it('is undefined when the process has exited', () => {
    writeInfo(JSON.stringify({ pid: spawnSync('true').pid, process_start: '1' }))
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
  ])('is undefined when the file contains %j', (text) => {
    writeInfo(text)
    expect(readLockOwner(folder)).toBeUndefined()
    expect(runningLockOwner(folder)).toBeUndefined()
  })
})
