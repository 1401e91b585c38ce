import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { FakeNpm } from './fake-npm.fixture.ts'
import { findNewerVersions, isNewerVersion } from './newer-versions.ts'

let folder: string
let npm: FakeNpm
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'craik-newer-'))
  npm = new FakeNpm(folder)
})
afterEach(() => rmSync(folder, { recursive: true }))

const signal = new AbortController().signal
const look = () => findNewerVersions(['kimi'], { environment: npm.environment, mounted: [], signal })

it.each([
  ['2.1.1', '2.1.0', true],
  ['2.1.0', '2.1.0', false],
  ['2.0.9', '2.1.0', false],
  ['2.10.0', '2.9.9', true],
  ['2.1', '2.1.0', false],
  ['2.1.0', '2.1.0-rc.1', true],
  ['2.1.0-rc.1', '2.1.0', false],
])('%s is newer than %s: %s', (one, other, later) => {
  expect(isNewerVersion(one, other)).toBe(later)
})

it('queries each pinned package once and changes nothing', async () => {
  npm.setScript(`echo '"99.0.0"'`)
  expect(await look()).toEqual([
    {
      harness: 'kimi',
      package: '@moonshot-ai/kimi-code',
      pinned: '2.1.0',
      latest: '99.0.0',
      isNewer: true,
    },
  ])
  expect(readFileSync(join(folder, 'calls'), 'utf8')).toMatch(/^view @moonshot-ai\/kimi-code version --json /)
})

it('reports a registry that is unreachable or sends an invalid answer', async () => {
  npm.setScript('echo "npm error code ECONNREFUSED" >&2; exit 1')
  await expect(look()).rejects.toMatchObject({
    code: 'unavailable',
    message: expect.stringContaining('is unreachable'),
  })
  npm.setScript(`echo '{"version":[]}'`)
  await expect(look()).rejects.toMatchObject({ code: 'unavailable' })
  npm.setScript('echo no JSON')
  await expect(look()).rejects.toMatchObject({ code: 'unavailable' })
})
