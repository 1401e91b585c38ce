/**
 * Tests when the supervisor saves login sandboxes. A fixture replaces the program that saves, and records its
 * arguments.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { LoginRecords } from '../login-sandbox/login-records.ts'
import { homeAt } from '../store/home.ts'
import { startAutosave } from './autosave.ts'

const MINUTE_MS = 60_000
let folder: string
let logged: { readonly message: string; readonly facts: unknown }[]
let nowMs: number
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'craik-autosave-'))
  logged = []
  nowMs = Date.UTC(2026, 10, 15)
})
afterEach(() => rmSync(folder, { recursive: true }))

const idOf = (login: string) =>
  `sbx_${login
    .toUpperCase()
    .replaceAll(/[^0-9A-HJKMNP-TV-Z]/g, '0')
    .padEnd(26, '0')}`
const running = (login: string, more: object = {}) => ({
  id: idOf(login),
  state: 'running',
  activeAtMs: nowMs,
  runningJobs: 0,
  ...more,
})

function start(list: () => readonly ReturnType<typeof running>[], program: string, everyMs = 5) {
  const mainFile = join(folder, 'main.mjs')
  writeFileSync(
    mainFile,
    `import { appendFileSync } from 'node:fs'
const say = (text) => appendFileSync(${JSON.stringify(join(folder, 'said'))}, text + '\\n')
const args = process.argv.slice(2).join(' ')
${program}`,
  )
  return startAutosave({
    home: homeAt(join(folder, 'home')),
    clock: { nowMs: () => nowMs },
    mainFile,
    everyMs,
    log: (_level, message, facts) => logged.push({ message, facts }),
    list: async () => list(),
  })
}

function know(...logins: string[]): void {
  for (const login of logins)
    new LoginRecords(homeAt(join(folder, 'home')).loginSandboxes).enter(
      {
        login,
        profile: null,
        sandboxId: idOf(login),
        inbox: '/home/octo/inbox',
        workspace: null,
        author: null,
        entryTimestamp: '2026-11-15T09-12-44Z',
      },
      undefined,
    )
}
const readOutput = () => (existsSync(join(folder, 'said')) ? readFileSync(join(folder, 'said'), 'utf8') : '')
const lines = () => readOutput().split('\n').filter(Boolean)
async function until(isSo: () => boolean): Promise<void> {
  for (let left = 1500; !isSo(); left--) {
    if (left === 0) throw new Error(`it never came: ${readOutput()}`)
    await sleep(10)
  }
}

it('saves each running login sandbox again and again, one at a time, without secrets of the environment', async () => {
  process.env.CRAIK_TEST_SECRET = 'x'
  try {
    know('one', 'two', 'stopped', 'elsewhere')
    const sandboxes = [
      running('one'),
      running('two'),
      running('stopped', { state: 'stopped' }),
      running('not-known'),
    ]
    const autosave = start(
      () => sandboxes,
      `say('begin ' + args + ' ' + process.env.CRAIK_HOME + ' ' + process.env.CRAIK_TEST_SECRET); setTimeout(() => say('end'), 50)`,
    )
    await until(() => lines().length >= 8)
    await autosave.close()
    const home = join(folder, 'home')
    expect(lines().slice(0, 4)).toEqual([
      `begin save --login one --quiet ${home} undefined`,
      'end',
      `begin save --login two --quiet ${home} undefined`,
      'end',
    ])
    expect(readOutput()).not.toMatch(/stopped|elsewhere|not-known|begin[^\n]*\nbegin/)
    expect(logged).toEqual([])
  } finally {
    delete process.env.CRAIK_TEST_SECRET
  }
})

it('saves all of a sandbox until it is idle, and then only its conversations', async () => {
  const [look, leave] = ['save --login one --quiet', 'save --login one --quiet --conversations']
  know('one')
  let more: object = {}
  const autosave = start(() => [running('one', more)], 'say(args)')
  await until(() => lines().length >= 2)
  // The save itself is recorded as activity a little later.
  more = { activeAtMs: nowMs + MINUTE_MS / 2 }
  await until(() => lines().length >= 6)
  expect(lines().slice(0, 2)).toEqual([look, look])
  expect(new Set(lines().slice(2))).toEqual(new Set([leave]))
  more = { runningJobs: 1 }
  const busy = lines().length
  await until(() => lines().slice(busy).includes(look))
  more = {}
  await until(() => lines().at(-1) === leave)
  nowMs += 10 * MINUTE_MS
  const active = lines().length
  await until(() => lines().slice(active).includes(look))
  await until(() => lines().at(-1) === leave)
  await autosave.close()
})

it('tries to save all of an idle sandbox again after a failure, until it succeeds', async () => {
  const [look, leave] = ['save --login one --quiet', 'save --login one --quiet --conversations']
  know('one')
  const sandbox = running('one')
  const failing = 4
  const autosave = start(
    () => [sandbox],
    `say(args)
import { readFileSync } from 'node:fs'
if (readFileSync(${JSON.stringify(join(folder, 'said'))}, 'utf8').match(/save/g).length <= ${failing}) process.exit(74)`,
  )
  await until(() => lines().includes(leave))
  await autosave.close()
  expect(lines().slice(0, failing + 3)).toEqual([...Array(failing + 2).fill(look), leave])
})

it('lets an idle sandbox be idle although no save of it succeeds', async () => {
  const leave = 'save --login one --quiet --conversations'
  know('one')
  const sandbox = running('one')
  const autosave = start(
    () => [sandbox],
    `say(args); if (!args.includes('--conversations')) process.exit(74)`,
  )
  await until(() => lines().filter((line) => line === leave).length >= 3)
  await autosave.close()
  const first = lines().indexOf(leave)
  expect(first).toBeGreaterThan(5)
  expect(new Set(lines().slice(first))).toEqual(new Set([leave]))
})

it('logs a failed save as one line, and continues with the next sandbox', async () => {
  know('bad', 'good')
  writeFileSync(join(homeAt(join(folder, 'home')).loginSandboxes, 'odd.json'), 'no record', { mode: 0o600 })
  const autosave = start(
    () => [running('bad'), running('good')],
    `if (args.includes('bad')) { console.error('craik: no space left\\n  and more'); process.exit(74) } else say(args)`,
    200,
  )
  await until(() => lines().length >= 1)
  await autosave.close()
  const message = 'could not save a login sandbox'
  expect(logged.slice(0, 2)).toEqual([
    { message, facts: { login: 'odd', reason: 'cannot read its record' } },
    { message, facts: { login: 'bad', reason: 'craik: no space left' } },
  ])
})

it('ends the save in progress when the supervisor exits, and logs nothing', async () => {
  know('slow')
  const autosave = start(() => [running('slow')], `say(String(process.pid)); setInterval(() => {}, 1000)`)
  await until(() => lines().length >= 1)
  await autosave.close()
  await autosave.close()
  expect(() => process.kill(Number(lines()[0]), 0)).toThrow('ESRCH')
  expect(logged).toEqual([])
})
