import { mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { buildOf, compareBuilds } from './build-version.ts'

let folder: string
let main: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'craik-build-'))
  mkdirSync(join(folder, 'lib'))
  main = join(folder, 'main.ts')
  writeFileSync(main, '1')
  writeFileSync(join(folder, 'lib', 'a.ts'), '1')
})
afterEach(() => rmSync(folder, { recursive: true }))

describe('the build id', () => {
  it('changes when any file of the program changes', () => {
    const before = buildOf(main)
    expect(buildOf(main)).toEqual(before)
    utimesSync(join(folder, 'lib', 'a.ts'), 4_000_000_000, 4_000_000_000)
    expect(buildOf(main)).toMatchObject({ version: before.version, built_at_ms: 4_000_000_000_000 })
    expect(buildOf(main).build).not.toBe(before.build)
  })

  it('does not depend on tests', () => {
    const before = buildOf(main)
    writeFileSync(join(folder, 'lib', 'a.test.ts'), 'anything')
    expect(buildOf(main)).toEqual(before)
  })

  it.each([
    ['0.1.0', 5, '0.2.0', 1, -1],
    ['0.10.0', 1, '0.9.0', 5, 1],
    ['1.0.0', 1, '0.9.9', 5, 1],
    ['0.1.0', 1, '0.1.0', 5, -1],
    ['0.1.0', 5, '0.1.0', 5, 0],
  ])('orders %s at %d against %s at %d by version, then by time', (a, aMs, b, bMs, sign) => {
    const build = (version: string, built_at_ms: number) => ({ version, built_at_ms, build: '' })
    expect(Math.sign(compareBuilds(build(a, aMs), build(b, bMs)))).toBe(sign)
  })
})
