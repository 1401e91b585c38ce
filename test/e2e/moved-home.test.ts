/** A Craik home that is moved, removed or replaced by a backup while its supervisor runs. */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { ERRORS } from '../../src/errors.ts'
import { SandboxHome } from '../sandbox-home.ts'

const LIMIT_MS = 100_000
/** Supervisors check their home once a second. A busy host takes longer. */
const GONE_MS = 15_000

interface Listed {
  readonly id: string
  readonly state: string
}

function supervisorOf(home: string): number {
  return (JSON.parse(readFileSync(join(home, 'run/supervisor.json'), 'utf8')) as { pid: number }).pid
}

function isGone(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z ')
  } catch {
    return true
  }
}

async function waitUntilGone(pid: number): Promise<boolean> {
  for (const endsMs = performance.now() + GONE_MS; performance.now() < endsMs; await sleep(50))
    if (isGone(pid)) return true
  return false
}

it('in a moved home, the first command at the new path works, and nothing is created at the old path', {
  timeout: LIMIT_MS,
}, async () => {
  await using home = await SandboxHome.open({ identity: 'user' })
  const { id } = await home.create()
  const beat = 'while :; do echo beat >> beats; sleep 0.1; done'
  const detached = await home.run(['sandbox', 'exec', id, '--detach', '--', 'sh', '-c', beat])
  expect(detached.code, detached.stderr).toBe(0)
  const before = supervisorOf(home.home)
  const moved = home.path('moved')
  const atNew = { env: { CRAIK_HOME: moved } }
  renameSync(home.home, moved)
  try {
    const listed = await home.json<Listed[]>(['sandbox', 'list', '--format', 'json'], atNew)
    expect(listed).toMatchObject([{ id, state: 'running' }])
    const count = 'a=$(wc -l < beats); sleep 1; b=$(wc -l < beats); [ "$b" -gt "$a" ] && echo goes on'
    const ran = await home.run(['sandbox', 'exec', id, '--', 'sh', '-c', count], atNew)
    expect(ran).toMatchObject({ code: 0, stdout: 'goes on\n' })
    expect(supervisorOf(moved)).not.toBe(before)
    expect(await waitUntilGone(before)).toBe(true)
    const another = await home.json<Listed>(['sandbox', 'create', '--format', 'json'], atNew)
    expect(existsSync(join(moved, 'sandboxes', another.id))).toBe(true)
  } finally {
    const cleaned = await home.run(['sandbox', 'delete', '--all', '--yes'], atNew)
    await home.run(['supervisor', 'stop'], atNew)
    expect(cleaned.code, cleaned.stderr).toBe(0)
  }
  expect(existsSync(join(moved, 'sandboxes', id))).toBe(false)
  expect(existsSync(home.home)).toBe(false)
})

it('the supervisor of a moved home does not touch another home at the old path', {
  timeout: LIMIT_MS,
}, async () => {
  await using home = await SandboxHome.open({ identity: 'user' })
  const list = ['sandbox', 'list', '--format', 'json']
  await home.json(list)
  const before = supervisorOf(home.home)
  // Stops the process, so that it notices the move only after the other home has a supervisor.
  process.kill(before, 'SIGSTOP')
  try {
    renameSync(home.home, home.path('moved'))
    expect(await home.json(list)).toEqual([])
    const { pid } = await home.json<{ pid: number }>(['supervisor', 'status', '--format', 'json'])
    process.kill(before, 'SIGCONT')
    expect(await waitUntilGone(before)).toBe(true)
    const status = await home.json(['supervisor', 'status', '--format', 'json'])
    expect(status).toMatchObject({ running: true, pid })
    expect(supervisorOf(home.home)).toBe(pid)
  } finally {
    if (!isGone(before)) process.kill(before, 'SIGKILL')
  }
})

it('a running command of a moved home ends, and creates nothing at the old path', {
  timeout: LIMIT_MS,
}, async () => {
  await using home = await SandboxHome.open({ identity: 'user' })
  const sandbox = await home.create()
  const before = supervisorOf(home.home)
  const running = home.run(['sandbox', 'exec', sandbox.id, '--', 'sh', '-c', 'touch begun; sleep 60'])
  while ((await sandbox.exec(['test', '-e', 'begun'])).code !== 0) await sleep(50)
  renameSync(home.home, home.path('moved'))
  try {
    const { code, stderr } = await running
    expect(stderr).toContain('the home folder was moved or removed while this command ran')
    expect(code).toBe(ERRORS.home_unwritable.exit)
    expect(await waitUntilGone(before)).toBe(true)
    expect(existsSync(home.home)).toBe(false)
  } finally {
    rmSync(home.home, { recursive: true, force: true })
    renameSync(home.path('moved'), home.home)
  }
})

it('the supervisor of a removed home exits by itself, and its sandboxes end with it', {
  timeout: LIMIT_MS,
}, async () => {
  await using home = await SandboxHome.open({ identity: 'user' })
  const { id } = await home.create()
  const pid = supervisorOf(home.home)
  try {
    rmSync(home.home, { recursive: true, maxRetries: 5 })
    expect(await waitUntilGone(pid)).toBe(true)
    expect(await home.findLeftovers(id)).toEqual([])
    expect(existsSync(home.home)).toBe(false)
  } finally {
    if (!isGone(pid)) process.kill(pid, 'SIGKILL')
  }
})

it.each([
  ['exits and ends its sandboxes', false],
  ['that comes late stands in nobody’s way, and leaves what runs now', true],
])('after a backup replaced the home, the supervisor %s', { timeout: LIMIT_MS }, async (_, isLate) => {
  await using home = await SandboxHome.open({ identity: 'user' })
  const { id } = await home.create()
  execFileSync('cp', ['-a', home.home, home.path('backup')])
  const later = await home.create()
  const before = supervisorOf(home.home)
  if (isLate) process.kill(before, 'SIGSTOP')
  try {
    // Replaces the files as `rsync --delete-after` does: the home folder stays, and no new file gets the inode number
    // of an old one.
    mkdirSync(home.path('old'))
    for (const name of readdirSync(home.home)) renameSync(join(home.home, name), home.path('old', name))
    execFileSync('cp', ['-a', `${home.path('backup')}/.`, home.home])
    rmSync(home.path('old'), { recursive: true, maxRetries: 5 })
    if (!isLate) expect(await waitUntilGone(before)).toBe(true)
    const listed = await home.json<Listed[]>(['sandbox', 'list', '--format', 'json'])
    expect(listed).toMatchObject([{ id, state: 'lost' }])
    const now = supervisorOf(home.home)
    expect(now).not.toBe(before)
    const resumed = await home.run(['sandbox', 'resume', id])
    expect(resumed.code, resumed.stderr).toBe(0)
    if (isLate) process.kill(before, 'SIGCONT')
    expect(await waitUntilGone(before)).toBe(true)
    const ran = await home.run(['sandbox', 'exec', id, '--', 'true'])
    expect(ran.code, ran.stderr).toBe(0)
    expect(supervisorOf(home.home)).toBe(now)
    expect(await home.findLeftovers(later.id)).toEqual([])
  } finally {
    if (!isGone(before)) process.kill(before, 'SIGKILL')
  }
})
