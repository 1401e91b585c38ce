import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import {
  harnessesFolder,
  harnessInside,
  harnessName,
  harnessVersion,
  isHarnessId,
  requireHarnesses,
} from './harness-package.ts'

const ID = 'claude-code-2.1.325-0123456789ab'

it('a harness id contains the name and the version, also for a name with a hyphen', () => {
  expect([harnessName(ID), harnessVersion(ID)]).toEqual(['claude-code', '2.1.325'])
  expect(harnessInside(ID)).toBe('/opt/craik-harnesses/claude-code')
})

it.each([
  '',
  'codex',
  'codex-1.0.0',
  '../codex-1.0.0-0123456789ab',
  'codex-1.0.0-0123456789ab/..',
  'co/dex-1.0.0-0123456789ab',
  '-1.0.0-0123456789ab',
  'codex-1.0.0-0123456789AB',
  `codex-${'1'.repeat(100)}-0123456789ab`,
  'codex-1.0.0-0123456789ab\n',
])('refuses %j as an id, because it could lead to another path', (id) => {
  expect(isHarnessId(id)).toBe(false)
})

it('names a missing harness and the command that installs it', async () => {
  const home = mkdtempSync(join(tmpdir(), 'craik-home-'))
  const owner = { craikHome: home, environment: { XDG_CACHE_HOME: join(home, 'xdg') } }
  const folder = join(harnessesFolder(owner), ID)
  try {
    const error = { code: 'not_found', hint: 'craik harness install claude-code' }
    await expect(requireHarnesses(owner, [ID])).rejects.toMatchObject(error)
    mkdirSync(folder, { recursive: true })
    await expect(requireHarnesses(owner, [ID])).rejects.toMatchObject(error)
    writeFileSync(join(folder, 'harness-manifest.json'), '{}')
    await requireHarnesses(owner, [ID])
    await requireHarnesses(owner, [])
  } finally {
    rmSync(home, { recursive: true })
  }
})
