/** Faults around a supervisor: processes that stop, disappear or are replaced in the middle of an operation. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, readFileSync, rmSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { newId } from '../../src/lib/ids.ts'
import { ownerState } from '../../src/lib/owner.ts'
import { childrenOf } from '../../src/sandboxes/backends/process/descendants.ts'
import { findInstanceProcesses } from '../../src/sandboxes/backends/process/instance-processes.ts'
import { runJob } from '../../src/sdk/run-job.ts'
import { homeAt } from '../../src/store/home.ts'
import { connectSupervisor, findSupervisor } from '../../src/supervisor/connect-or-start.ts'
import { runFolder } from '../../src/supervisor/run-folder.ts'
import { builtFolder } from '../built-craik.ts'
import { run } from '../craik.ts'
import { canBe, EVERY_IDENTITY, SandboxHome } from '../sandbox-home.ts'
import { createRandom, SEED, SupervisorKiller } from './supervisor-kill.ts'
import { requireWholeLog } from './supervisor-kill-receipts.ts'

const LIMIT_MS = 600_000

// Each test waits a long time in its own home, so they run concurrently.
describe.concurrent.each(EVERY_IDENTITY)('as %s', (identity) => {
  it.runIf(canBe(identity))(
    'a killed sidecar stops its sandbox, which is reported, recorded and can be deleted',
    { timeout: LIMIT_MS },
    async () => {
      await using home = await SandboxHome.open({ identity })
      const sandbox = await home.create()
      const client = home.client()
      const started = Promise.withResolvers<void>()
      const spec = { kind: 'exec' as const, argv: ['sleep', '100000'] }
      const running = runJob(client, sandbox.id, spec, {
        jobId: newId('job', Date.now()),
        onStarted: () => started.resolve(),
      })
      const failed = expect(running).rejects.toMatchObject({ code: 'sandbox_stopped' })
      await started.promise
      process.kill(await sidecarOf(home, sandbox.id), 'SIGKILL')
      await failed
      await until(async () => (await client.sandboxes.get(sandbox.id)).state === 'lost')
      expect((await client.sandboxes.get(sandbox.id)).notice).toMatch(/sidecar/)
      await expect(sandbox.exec(['true'])).rejects.toMatchObject({ code: 'sandbox_stopped' })
      await sandbox.delete()
      const receipts = await requireWholeLog(home)
      const ends = receipts.filter(({ phase, operation }) => phase === 'end' && operation === 'exec')
      expect(ends).toMatchObject([{ status: 'indeterminate' }])
      expect(receipts.filter(({ operation }) => operation === 'lost')).toHaveLength(1)
    },
  )

  it.runIf(canBe(identity))(
    'a stopped sidecar is a failed boundary, and one that continues works as before',
    { timeout: LIMIT_MS },
    async () => {
      await using home = await SandboxHome.open({ identity })
      const sandbox = await home.create()
      expect(await sandbox.exec(['echo', 'before'])).toMatchObject({ stdout: 'before\n' })
      const sidecar = await sidecarOf(home, sandbox.id)
      process.kill(sidecar, 'SIGSTOP')
      try {
        await expect(sandbox.exec(['echo', 'stopped'])).rejects.toMatchObject({ code: 'boundary_failed' })
      } finally {
        process.kill(sidecar, 'SIGCONT')
      }
      const after = () => sandbox.exec(['echo', 'after']).catch(() => undefined)
      await until(async () => (await after())?.stdout === 'after\n')
      expect(await sidecarOf(home, sandbox.id)).toBe(sidecar)
      await sandbox.delete()
      await requireWholeLog(home)
    },
  )

  it.runIf(canBe(identity))(
    'a killed command leaves its job running, and the next command reads all of its output',
    { timeout: LIMIT_MS },
    async () => {
      await using home = await SandboxHome.open({ identity })
      const sandbox = await home.create()
      const job = newId('job', Date.now())
      const script = 'echo started >> starts; for i in $(seq 1 400); do echo $i; sleep 0.01; done'
      const args = ['sandbox', 'exec', sandbox.id, '--job-id', job, '--', 'sh', '-c', script]
      const first = spawn(home.program.node, [home.program.main, ...args], {
        env: { PATH: process.env.PATH, HOME: home.folder, CRAIK_HOME: home.home },
        stdio: ['ignore', 'pipe', 'ignore'],
        ...home.user,
      })
      await once(first.stdout, 'data')
      first.kill('SIGKILL')
      await once(first, 'exit')
      const followed = await home.run(['sandbox', 'logs', sandbox.id, '--job', job, '--follow'])
      const numbers = Array.from({ length: 400 }, (_, n) => `${n + 1}\n`).join('')
      expect(followed).toMatchObject({ code: 0, stdout: numbers })
      // A repeated request with the same id shows the job and does not run it again.
      expect(await home.run(['sandbox', 'exec', '--no-stdin', ...args.slice(2)])).toMatchObject({
        code: 0,
        stdout: numbers,
      })
      expect((await sandbox.exec(['cat', 'starts'])).stdout).toBe('started\n')
      await sandbox.delete()
      await requireWholeLog(home)
    },
  )
})

describe('another version of the supervisor', () => {
  it('takes over while long and short commands run, without an effect on them', {
    timeout: LIMIT_MS,
  }, async () => {
    await using home = await SandboxHome.open({ identity: 'user' })
    const sandbox = await home.create()
    const client = home.client()
    const before = (await client.supervisor.version()).pid
    let output = ''
    const script = 'echo started >> starts; for i in $(seq 1 500); do echo $i; sleep 0.02; done'
    const spec = { kind: 'exec' as const, argv: ['sh', '-c', script] }
    const streamed = runJob(client, sandbox.id, spec, {
      jobId: newId('job', Date.now()),
      onStdout: (chunk) => {
        output += chunk
      },
    })
    // Longer than a supervisor that exits waits for its answers.
    const argv = ['sh', '-c', 'sleep 8; echo slow']
    const slow = client.sandboxes.exec(sandbox.id, { argv, job_id: newId('job', Date.now()) })
    await until(() => output.includes('\n10\n'))
    await runNewerVersion(home)
    const after = (await client.supervisor.version()).pid
    expect(after).not.toBe(before)
    expect(await slow).toMatchObject({ exit_code: 0, stdout: { data: 'slow\n' } })
    expect((await streamed).result).toMatchObject({ exitCode: 0 })
    expect(output).toBe(Array.from({ length: 500 }, (_, n) => `${n + 1}\n`).join(''))
    expect((await sandbox.exec(['cat', 'starts'])).stdout).toBe('started\n')
    await sandbox.delete()
    await requireWholeLog(home)
  })
})

it('a supervisor whose program was removed still makes decisions for running sandboxes', {
  timeout: LIMIT_MS,
}, async () => {
  await using home = await SandboxHome.open({ identity: canBe('root') ? 'root' : 'user' })
  const sandbox = await home.create()
  rmSync(await runNewerVersion(home), { recursive: true })
  using orphan = (await findSupervisor({ home: homeAt(home.home) }))!
  expect(await orphan.supervisor.status()).toMatchObject({ program_gone: true, sandboxes: 1 })
  const job_id = newId('job', Date.now())
  expect(await orphan.sandboxes.exec(sandbox.id, { argv: ['true'], job_id })).toMatchObject({ exit_code: 0 })
})

describe('twenty commands at once', () => {
  it(`while supervisors are killed (seed ${SEED}), never have two of them, and all get an answer`, {
    timeout: LIMIT_MS,
  }, async () => {
    const random = createRandom(SEED)
    const identity = canBe('root') ? 'root' : 'user'
    await using home = await SandboxHome.open({ identity })
    const killer = new SupervisorKiller(home.home)
    const environment = { PATH: process.env.PATH, HOME: home.folder }
    const deps = { home: homeAt(home.home), mainFile: home.program.main, environment }
    const asking = Array.from({ length: 20 }, async () => {
      await sleep(random() * 3_000)
      using client = await connectSupervisor(deps)
      return client.sandboxes.list()
    })
    let over = false
    const killing = (async () => {
      while (!over && killer.killed.length < 6) {
        const alive = await killer.current()
        // The previous supervisor has exited when the next one records its pid.
        for (const killed of killer.killed) {
          expect(killed.pid).not.toBe(alive.pid)
          expect(ownerState(killed)).toBe('dead')
        }
        await killer.kill(random() * 600)
      }
    })()
    for (const answer of await Promise.all(asking)) expect(answer).toEqual([])
    over = true
    using last = await connectSupervisor(deps)
    expect(await last.sandboxes.list()).toEqual([])
    await killing
    using _again = await connectSupervisor(deps)
    const log = readFileSync(runFolder(deps.home).log, 'utf8')
    expect(log.match(/"message":"started"/g)!.length).toBeLessThanOrEqual(killer.killed.length + 1)
    expect(killer.killed.length).toBeGreaterThan(0)
  })
})

/**
 * Runs one command with the same code and a later modification time, as after an upgrade. Returns the folder of that
 * code.
 */
async function runNewerVersion(home: SandboxHome): Promise<string> {
  const copy = home.path('newer')
  cpSync(builtFolder(), copy, { recursive: true, preserveTimestamps: true })
  const main = join(copy, 'src/main.cjs')
  const later = new Date(Date.now() + 60_000)
  utimesSync(main, later, later)
  const ran = await run(home.program.node, [main, 'sandbox', 'list', '--format', 'json'], {
    env: { PATH: process.env.PATH!, HOME: home.folder, CRAIK_HOME: home.home },
    cwd: home.folder,
    ...home.user,
  })
  expect(ran).toMatchObject({ code: 0 })
  return copy
}

/** Returns the pid of the sandbox's sidecar, which is a child of the first process. */
async function sidecarOf(home: SandboxHome, id: string): Promise<number> {
  const places = await findInstanceProcesses({ id, folder: join(home.home, 'sandboxes', id) })
  const below = places.flatMap(({ pid }) => [pid, ...childrenOf(pid)])
  const found = below.find((pid) => {
    const [program] = readFileSync(`/proc/${pid}/cmdline`, 'latin1').split('\0')
    return program?.endsWith('/opt/craik/node')
  })
  if (found === undefined) throw new Error(`the sidecar of ${id} was not found`)
  return found
}

async function until(what: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await what())) await sleep(50)
}
