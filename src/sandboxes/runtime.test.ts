import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { prepareRuntime, pruneRuntimes, type Runtime } from './runtime.ts'
import { TestFolder } from './sandbox.fixture.ts'

let test: TestFolder
let warmed: string[]
beforeEach(() => {
  test = new TestFolder()
  warmed = []
  // A small program replaces Node, which is large.
  writeFileSync(test.path('node'), '#!/bin/sh\n', { mode: 0o755 })
})
afterEach(() => test[Symbol.dispose]())

const prepare = (): Promise<Runtime> =>
  prepareRuntime({
    cache: test.path('cache'),
    node: test.path('node'),
    async warm(folder) {
      warmed.push(folder)
      mkdirSync(join(folder, 'compile-cache/deep'), { mode: 0o700 })
      writeFileSync(join(folder, 'compile-cache/deep/entry'), 'code', { mode: 0o600 })
    },
  })
const modeOf = (path: string) => (statSync(path).mode & 0o777).toString(8)
const all = () => readdirSync(test.path('cache/runtime'))

describe('the sandbox runtime', () => {
  it('contains a program that can be executed but not read, and files that every user can read', async () => {
    const { folder, digest } = await prepare()
    expect(folder).toBe(test.path('cache/runtime', digest))
    expect(modeOf(folder)).toBe('755')
    expect(modeOf(join(folder, 'node'))).toBe('111')
    for (const name of ['git-hooks', 'etc']) expect(modeOf(join(folder, name)), name).toBe('755')
    expect(modeOf(join(folder, 'git-hooks/pre-push'))).toBe('555')
    for (const name of ['sidecar.mjs', 'pty.node', 'etc/gitconfig', 'compile-cache/deep/entry'])
      expect(modeOf(join(folder, name)), name).toBe('444')
    expect(modeOf(join(folder, 'compile-cache/deep'))).toBe('755')
  })

  it('is created once', async () => {
    const first = await prepare()
    expect(await prepare()).toEqual(first)
    expect(warmed).toHaveLength(1)
  })

  it('is created completely by each of several concurrent calls, and one of them is kept', async () => {
    const made = await Promise.all(Array.from({ length: 5 }, prepare))
    expect(new Set(made.map(({ folder }) => folder)).size).toBe(1)
    expect(all()).toEqual([made[0]!.digest])
  })

  it('is created again if it is damaged', async () => {
    const { folder, digest } = await prepare()
    const bundle = join(folder, 'sidecar.mjs')
    const good = readFileSync(bundle)
    chmodSync(bundle, 0o644)
    writeFileSync(bundle, 'something else')
    expect(await prepare()).toEqual({ folder, digest })
    expect(readFileSync(bundle)).toEqual(good)
    chmodSync(join(folder, 'node'), 0o755)
    await prepare()
    expect(modeOf(join(folder, 'node'))).toBe('111')
    expect(all()).toEqual([digest])
  })

  it('is a different one for a different program', async () => {
    const first = await prepare()
    writeFileSync(test.path('node'), '#!/bin/sh\nexit 0\n')
    const second = await prepare()
    expect(second.digest).not.toBe(first.digest)
    await pruneRuntimes(test.path('cache'), new Set([first.digest, second.digest]))
    expect(all()).toHaveLength(2)
    await pruneRuntimes(test.path('cache'), new Set([second.digest]))
    expect(all()).toEqual([second.digest])
  })

  it('is usable even if the sidecar could not run to warm it', async () => {
    const options = { cache: test.path('cache'), node: test.path('node') }
    const { folder } = await prepareRuntime({ ...options, warm: () => Promise.reject(new Error('no')) })
    expect(existsSync(join(folder, 'manifest.json'))).toBe(true)
  })

  it('loses abandoned partial copies when pruned, but not those that are being created', async () => {
    const { digest } = await prepare()
    for (const name of ['.abandoned', '.fresh']) mkdirSync(test.path('cache/runtime', name))
    utimesSync(test.path('cache/runtime/.abandoned'), 1, 1)
    await pruneRuntimes(test.path('cache'), new Set([digest]))
    expect(all().sort()).toEqual(['.fresh', digest])
  })
})
