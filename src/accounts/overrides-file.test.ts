import { mkdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { readConfigFile } from '../providers/config-file.ts'
import { machine } from './accounts.fixture.ts'
import { OverridesFile } from './overrides-file.ts'

const saying = (host: string) => `codex:\n  base_url: https://${host}/v1\n`

it('returns the present content of config/accounts.yaml, and nothing while the file is invalid', async () => {
  using testMachine = machine()
  const { config } = testMachine.home
  mkdirSync(config, { recursive: true })
  const path = join(config, 'accounts.yaml')
  let reads = 0
  const file = new OverridesFile(config, () => {
    reads++
    return readConfigFile(config, 'accounts.yaml')
  })
  expect(await file.current()).toEqual({})
  // Both texts have the same length, and are written within the same clock tick.
  for (const host of ['one.example', 'two.example']) {
    writeFileSync(path, saying(host), { mode: 0o600 })
    expect(await file.current()).toEqual({ codex: { base_url: `https://${host}/v1` } })
  }
  for (const damaged of ['codex: [', saying('user@two.example'), 'codx: {}']) {
    writeFileSync(path, damaged)
    const refused = { code: 'invalid_config', details: { file: 'config/accounts.yaml' } }
    for (let tries = 0; tries < 2; tries++) await expect(file.current()).rejects.toMatchObject(refused)
  }
  writeFileSync(path, saying('one.example'))
  const past = new Date(Date.now() - 60_000)
  utimesSync(path, past, past)
  const before = reads
  for (let tries = 0; tries < 3; tries++)
    expect(await file.current()).toEqual({ codex: { base_url: 'https://one.example/v1' } })
  expect(reads).toBe(before + 1)
  rmSync(path)
  expect(await file.current()).toEqual({})
})
