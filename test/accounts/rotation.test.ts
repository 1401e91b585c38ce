import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { tempFolder } from '../temp-folder.ts'
import { type Issuer, startIssuer } from './issuer.ts'
import type { Instructions, Report } from './user-of-tokens.ts'

const PATIENCE = { timeout: 60_000, interval: 10 }

let issuer: Issuer
let folder: string
let users: User[]

beforeEach(async () => {
  issuer = await startIssuer()
  folder = tempFolder('craik-rotation-')
  users = []
  mkdirSync(join(folder, 'person/.claude'), { recursive: true })
  const { access_token, refresh_token } = issuer.login()
  const claudeAiOauth = {
    accessToken: access_token,
    refreshToken: refresh_token,
    expiresAt: Date.now() + 3_600_000,
    scopes: ['user:inference'],
  }
  writeFileSync(file(), JSON.stringify({ claudeAiOauth, kept: 'by all' }), { mode: 0o600 })
})

afterEach(async () => {
  for (const { child } of users) {
    child.kill('SIGKILL')
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
  }
  await issuer[Symbol.asyncDispose]()
})

const file = () => join(folder, 'person/.claude/.credentials.json')
const login = () => JSON.parse(readFileSync(file(), 'utf8'))

interface User {
  readonly child: ChildProcess
  readonly failures: string[]
  round: number
}

function start(role: Instructions['role']): User {
  const instructions: Instructions = {
    role,
    craikHome: join(folder, 'craik'),
    userHome: join(folder, 'person'),
    tokenUrl: issuer.tokenUrl,
    apiUrl: issuer.apiUrl,
    authority: issuer.authority,
  }
  const path = join(folder, `instructions-${users.length}.json`)
  writeFileSync(path, JSON.stringify(instructions))
  const script = role === 'program' ? 'host-program.ts' : 'broker-process.ts'
  const child = fork(join(import.meta.dirname, script), [path], {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  const user: User = { child, failures: [], round: -1 }
  child.on('message', (report: Report) => {
    if ('failure' in report) user.failures.push(report.failure)
    else user.round = report.round
  })
  users.push(user)
  return user
}

async function waitUntilAllServed(who: readonly User[] = users): Promise<void> {
  await expect
    .poll(() => who.every(({ round, failures }) => round === issuer.round || failures.length > 0), PATIENCE)
    .toBe(true)
}

describe('a login whose tokens rotate', () => {
  it('serves four brokers and its own program through twenty rotations without a failed call', async () => {
    for (const role of ['broker', 'broker', 'broker', 'broker', 'program'] as const) start(role)
    await waitUntilAllServed()
    for (let rotations = 0; rotations < 20; rotations++) {
      issuer.expire()
      await waitUntilAllServed()
    }
    expect(users.flatMap(({ failures }) => failures)).toEqual([])
    expect(issuer.reuses).toBe(0)
    expect(issuer.refreshes).toHaveLength(20)
    expect(issuer.isAlive(login().claudeAiOauth.accessToken)).toBe(true)
    expect(login().kept).toBe('by all')
    expect(statSync(file()).mode & 0o777).toBe(0o600)
    expect(readdirSync(join(folder, 'person/.claude'))).toEqual(['.credentials.json'])
    expect(readdirSync(join(folder, 'craik/secrets')).filter((name) => name.endsWith('.json'))).toEqual([])
  })

  it('survives the death of a broker while the issuer responds', async () => {
    const [other, victim] = [start('broker-apart'), start('broker-apart')]
    await waitUntilAllServed()
    issuer.delayMs = 500
    issuer.expire()
    await expect.poll(() => issuer.refreshes.length, PATIENCE).toBe(1)
    victim.child.kill('SIGKILL')
    await waitUntilAllServed([other])
    expect(issuer.refreshes).toHaveLength(1)
    expect(users.flatMap(({ failures }) => failures)).toEqual([])
    expect(issuer.reuses).toBe(0)
    expect(issuer.isAlive(login().claudeAiOauth.accessToken)).toBe(true)
  })

  it('survives that also when no other broker waits for the result', async () => {
    const victim = start('broker-apart')
    await waitUntilAllServed()
    issuer.delayMs = 500
    issuer.expire()
    await expect.poll(() => issuer.refreshes.length, PATIENCE).toBe(1)
    victim.child.kill('SIGKILL')
    await expect.poll(() => issuer.isAlive(readable() ?? ''), PATIENCE).toBe(true)
    issuer.delayMs = 0
    const next = start('broker-apart')
    await waitUntilAllServed([next])
    expect(issuer.refreshes).toHaveLength(1)
  })
})

function readable(): string | undefined {
  try {
    return login().claudeAiOauth.accessToken
  } catch {
    return undefined
  }
}
