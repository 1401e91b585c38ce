import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { environmentOf } from './job-environment.ts'

const SYSTEM = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

let home: string
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'craik-inside-'))
})
afterEach(() => rmSync(home, { recursive: true }))

const pathOf = (own: Record<string, string> = {}, added: Record<string, string> = {}) =>
  environmentOf({ home, workspace: home, gatewayPort: 1, own }, added).PATH

it('searches for programs in the home first, then in the added harnesses, then in the system', () => {
  expect(pathOf()).toBe(`${home}/.local/bin:${SYSTEM}`)
  const added = `${home}/.local/share/craik-harnesses`
  for (const name of ['kimi', 'codex', '.gemini-coming', 'a:b'])
    mkdirSync(join(added, name), { recursive: true })
  expect(pathOf()).toBe(`${home}/.local/bin:${added}/codex/bin:${added}/kimi/bin:${SYSTEM}`)
})

it("appends the PATH of the sandbox to the folders of the home, and uses only the caller's PATH if there is one", () => {
  expect(pathOf({ PATH: '/bin' })).toBe(`${home}/.local/bin:/bin`)
  expect(pathOf({ PATH: '/bin' }, { PATH: '/mine' })).toBe('/mine')
})

it('makes pip install to the home, because the system is read-only', () => {
  const environment = environmentOf({ home, workspace: home, gatewayPort: 1, own: {} })
  expect(environment).toMatchObject({ PYTHONUSERBASE: `${home}/.local`, PIP_BREAK_SYSTEM_PACKAGES: '1' })
})

it('limits the length of PATH, however many harness folders there are', () => {
  for (let at = 0; at < 200; at++)
    mkdirSync(join(home, '.local/share/craik-harnesses', `h${at}`), { recursive: true })
  expect(pathOf()!.split(':').length).toBeLessThan(50)
})
