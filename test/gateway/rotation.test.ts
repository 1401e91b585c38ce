/** A login with rotating tokens, used by four sandboxes and by its own program, also while the supervisor is killed. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import type { Instructions, Report } from '../accounts/user-of-tokens.ts'
import { canBe, type LiveSandbox } from '../sandbox-home.ts'
import { LoginScene, NODE_INSIDE } from './login-scene.ts'

const PATIENCE = { timeout: 60_000, interval: 10 }
const ROTATIONS = 20
/**
 * The number of tokens that stay valid. When a few rotations follow each other fast, every issuer still accepts the
 * token before the last.
 */
const NEWEST = 4
const BOXES = ['box-0', 'box-1', 'box-2', 'box-3']

it('four sandboxes and the program itself work through twenty rotations, one of them while the supervisor is killed', async () => {
  await using scene = await LoginScene.open({ identity: canBe('root') ? 'root' : 'user' })
  const { home, issuer, providers } = scene
  // So short that the broker renews the token at nearly every use.
  issuer.expiresInS = 61
  scene.logIn('claude', issuer.expiresInS * 1000)
  const file = scene.fileOf('claude')
  const login = () => JSON.parse(readFileSync(file, 'utf8')).claudeAiOauth
  const boxes: LiveSandbox[] = []
  for (const _ of BOXES) boxes.push(await scene.create())

  /** The newest round in which each program got an answer. */
  const served = new Map<string, number>()
  providers.onCall = ({ status, headers }) => {
    if (status === 200) served.set(String(headers['user-agent']), issuer.round)
  }
  const everybodyIsServed = () =>
    expect
      .poll(() => [...BOXES, 'program'].every((name) => served.get(name) === issuer.round), PATIENCE)
      .toBe(true)
  const question = JSON.stringify({ form: 'claude' })
  for (const [at, box] of boxes.entries()) {
    const loop = `setsid ${NODE_INSIDE} --no-warnings ask.ts --until-stop box-${at} '${question}' >log 2>&1 &`
    await box.exec(['sh', '-c', loop])
  }
  const failures: string[] = []
  const program = startProgram(scene, (report) => {
    if ('failure' in report) failures.push(report.failure)
    else served.set('program', report.round)
  })
  try {
    await everybodyIsServed()
    for (let round = 0; round < ROTATIONS; round++) {
      const refreshes = issuer.refreshes.length
      if (round === ROTATIONS / 2) await killMidRefresh(scene)
      issuer.expireAllBut(NEWEST)
      await everybodyIsServed()
      await expect.poll(() => issuer.refreshes.length, PATIENCE).toBeGreaterThan(refreshes)
    }
    // With a long expiry, no process renews the token. The kill below then hits no process with a token that is not
    // saved yet.
    issuer.expiresInS = 3600
    await expect.poll(() => login().expiresAt - Date.now(), PATIENCE).toBeGreaterThan(1_800_000)
  } finally {
    program.kill('SIGKILL')
    if (program.exitCode === null && program.signalCode === null) await once(program, 'exit')
  }
  expect(failures).toEqual([])
  const logs = await Promise.all(
    boxes.map(async (box) => {
      const ran = await box.exec([
        'sh',
        '-c',
        'touch stop; until grep -q ^stopped log; do sleep 0.05; done; cat log',
      ])
      return ran.stdout.split('\n').filter((line) => line !== '' && line !== 'stopped')
    }),
  )
  // The kill of the supervisor broke only requests in progress, and no request was refused.
  for (const log of logs) {
    expect(log.filter((line) => !line.startsWith('broken '))).toEqual([])
    expect(log.length).toBeLessThanOrEqual(1)
  }
  // A renewal can still be in progress. It ends by itself and removes its locks.
  await expect.poll(() => readdirSync(join(file, '..')), PATIENCE).toEqual(['.credentials.json'])
  expect(issuer.reuses).toBe(0)
  expect(issuer.refreshes.length).toBeGreaterThanOrEqual(ROTATIONS)
  expect(issuer.isAlive(login().accessToken)).toBe(true)
  expect(statSync(file).mode & 0o777).toBe(0o600)
  expect(await scene.hunt({ logs: logs.flat().join('\n') })).toEqual([])
  expect((await home.run(['receipts', 'verify', '--replay'])).code).toBe(0)
})

/**
 * Kills the supervisor when the issuer has rotated the token and not answered yet. The next command starts another
 * supervisor.
 */
async function killMidRefresh({ issuer, home }: LoginScene): Promise<void> {
  const before = issuer.refreshes.length
  issuer.delayMs = 300
  await expect.poll(() => issuer.refreshes.length, PATIENCE).toBeGreaterThan(before)
  const { pid } = JSON.parse(readFileSync(join(home.home, 'run/supervisor.json'), 'utf8'))
  process.kill(pid, 'SIGKILL')
  await home.json(['sandbox', 'list', '--format', 'json'])
  issuer.delayMs = 0
}

function startProgram({ home, issuer }: LoginScene, report: (report: Report) => void): ChildProcess {
  const instructions: Instructions = {
    role: 'program',
    craikHome: home.home,
    userHome: home.folder,
    tokenUrl: issuer.tokenUrl,
    apiUrl: issuer.apiUrl,
    authority: issuer.authority,
  }
  const path = home.path('instructions.json')
  writeFileSync(path, JSON.stringify(instructions))
  const script = join(import.meta.dirname, '../accounts/host-program.ts')
  const child = fork(script, [path], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
  child.on('message', report)
  return child
}
