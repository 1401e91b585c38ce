import { chmodSync, chownSync, mkdirSync, realpathSync, symlinkSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { TestFolder } from '../../sandbox.fixture.ts'
import { findSystemProgram, trustedProgram } from './system-program.ts'

let test: TestFolder
let program: string
beforeEach(() => {
  test = new TestFolder()
  mkdirSync(test.path('bin'))
  program = test.path('bin/sh')
  writeFileSync(program, '#!/bin/sh\n', { mode: 0o755 })
})
afterEach(() => test[Symbol.dispose]())

const SH = realpathSync('/bin/sh')

describe('a program of the system', () => {
  it('is found by its real path, whatever stands before it on the path', () => {
    expect(findSystemProgram('sh', `${test.path('bin')}:/usr/bin:/bin`)).toBe(SH)
    expect(findSystemProgram('sh', '/usr/bin/:/bin//')).toBe(SH)
  })

  it.each([undefined, '', '.', 'bin', 'usr/bin', '/nonexistent', '/usr/bin/../../tmp'])(
    'is not looked for where the path %j does not name a system folder',
    (path) => {
      expect(findSystemProgram('sh', path)).toBeUndefined()
    },
  )

  it('is never one from a folder of a project', () => {
    expect(findSystemProgram('sh', test.path('bin'))).toBeUndefined()
  })
})

if (process.getuid?.() === 0)
  describe('a program is trusted', () => {
    const spoilt: Record<string, () => void> = {
      'its group may write it': () => chmodSync(program, 0o775),
      'anybody may write it': () => chmodSync(program, 0o757),
      'its folder can be written by others': () => chmodSync(test.path('bin'), 0o777),
      'a folder above can be written by others': () => chmodSync(test.folder, 0o770),
      'it is not root’s': () => chownSync(program, 65534, 0),
      'its folder is not root’s': () => chownSync(test.path('bin'), 65534, 0),
      'nobody may execute it': () => chmodSync(program, 0o644),
    }

    it('when only root can have put it there', () => {
      expect(trustedProgram(program)).toBe(program)
    })

    it.each(Object.keys(spoilt))('but not when %s', (how) => {
      spoilt[how]!()
      expect(trustedProgram(program)).toBeUndefined()
    })

    it('by what a link leads to, not by where the link is', () => {
      symlinkSync(program, test.path('link'))
      expect(trustedProgram(test.path('link'))).toBe(program)
      chmodSync(program, 0o777)
      expect(trustedProgram(test.path('link'))).toBeUndefined()
    })
  })
