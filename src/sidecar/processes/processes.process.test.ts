/** Tests the processes in the sandbox, and the resources that they use. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { Served } from '../network/served.fixture.ts'
import type { Metrics, ProcessInfo } from '../protocol.ts'
import { jobsOf, processesOfSandbox } from './family.ts'
import { type Process, pageBytes, parseStat, readProcesses } from './proc.ts'
import { processRoutes } from './routes.ts'

let served: Served
let job: ChildProcess
const JOB = 'job_1'

beforeEach(async () => {
  // Starts a job like the registry: in a session of its own, with processes that the shell leaves behind.
  job = spawn('sh', ['-c', '(sleep 1000 & sleep 1000 & wait) & echo ready; wait'], {
    detached: true,
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  await once(job.stdout!, 'data')
  served = new Served(
    processRoutes({
      home: '/tmp',
      isIsolated: false,
      jobOf: (pid) => (pid === job.pid ? JOB : undefined),
      runningJobs: () => 1,
      openConnections: () => 2,
    }),
  )
})
afterEach(async () => {
  try {
    process.kill(-job.pid!, 'SIGKILL')
  } catch {
    // The test has already ended it.
  }
  await served[Symbol.asyncDispose]()
  expect(served.faults).toEqual([])
})

const list = async () =>
  (await served.json<{ processes: ProcessInfo[] }>('GET', '/processes')).value.processes
const sleepers = async () => {
  for (;;) {
    const found = (await list()).filter(({ name, job }) => name === 'sleep' && job === JOB)
    // On a busy host, a new process may not be asleep yet.
    if (found.length === 2 && found.every(({ state }) => state === 'S')) return found
    await sleep(5)
  }
}

describe('processes', () => {
  it('are listed with their jobs', async () => {
    const found = await sleepers()
    expect(found[0]).toMatchObject({ job: JOB, state: 'S' })
    expect(found[0]!.memoryBytes).toBeGreaterThan(0)
    expect(Math.abs(found[0]!.startedAtMs - Date.now())).toBeLessThan(3600_000)
    const self = (await list()).find(({ pid }) => pid === process.pid)
    expect(self?.job).toBeUndefined()
    expect(self!.cpuMs).toBeGreaterThan(0)
  })

  it('keep their job when their parent has exited', async () => {
    const [first] = await sleepers()
    const parent = first!.parent
    process.kill(parent, 'SIGKILL')
    for (;;) {
      const now = (await list()).find(({ pid }) => pid === first!.pid)
      if (now!.parent !== parent) {
        expect(now!.job).toBe(JOB)
        break
      }
      await sleep(5)
    }
  })

  it('can be signalled one by one', async () => {
    const [first, second] = await sleepers()
    const answer = await served.json('POST', `/processes/${first!.pid}/signal`, {}, { signal: 'SIGKILL' })
    expect(answer.status).toBe(200)
    while ((await list()).some(({ pid, state }) => pid === first!.pid && state !== 'Z')) await sleep(5)
    expect((await list()).some(({ pid }) => pid === second!.pid)).toBe(true)
  })

  it('cannot be signalled when they run the sandbox or are not in it', async () => {
    const outside = spawn('sleep', ['1000'], { detached: true, stdio: 'ignore' })
    const signal = (pid: number | string, name: unknown = 'SIGCONT') =>
      served.json<{ code: string }>('POST', `/processes/${pid}/signal`, {}, { signal: name })
    for (const pid of [1, process.pid, process.ppid]) expect((await signal(pid)).value.code).toBe('refused')
    for (const pid of [0, -1, `-${job.pid}`, 'x', '1e3']) expect((await signal(pid)).value.code).toBe('usage')
    for (const name of ['SIGNOPE', 9, null, 'toString', ''])
      expect((await signal(job.pid!, name)).value.code).toBe('usage')
    expect((await signal(4_000_000)).value.code).toBe('not_found')
    outside.kill('SIGKILL')
  })

  it('are measured', async () => {
    await sleepers()
    const { value } = await served.json<Metrics>('GET', '/metrics')
    expect(value.memoryBytes).toBeGreaterThan(value.sidecarMemoryBytes / 2)
    expect(value).toMatchObject({ runningJobs: 1, openConnections: 2 })
    expect(value.processes).toBeGreaterThanOrEqual(4)
    for (const figure of Object.values(value)) expect(Number.isSafeInteger(figure)).toBe(true)
  })
})

describe('the processes of a sandbox', () => {
  const one = (pid: number, parent: number, group = pid, session = group): Process => ({
    pid,
    parent,
    group,
    session,
    name: 'x',
    state: 'S',
    cpuMs: 0,
    childrenCpuMs: 0,
    residentPages: 1,
    startedAfterMs: 1_000_000,
  })
  const all = (...processes: Process[]) => new Map(processes.map((process) => [process.pid, process]))
  const jobOf = (pid: number) => (pid === 30 ? JOB : undefined)

  // All of them started at the same time, as in a container that starts Craik.
  it('are the descendants of the sidecar and its jobs, without isolation', () => {
    const machine = all(one(1, 0), one(20, 1), one(30, 20), one(31, 30), one(40, 1, 30, 30), one(50, 1))
    expect([...processesOfSandbox(machine, { sidecarPid: 20, jobOf, isIsolated: false }).keys()]).toEqual([
      20, 30, 31, 40,
    ])
    expect(jobsOf(machine, jobOf)).toEqual(
      new Map([
        [30, JOB],
        [31, JOB],
        [40, JOB],
      ]),
    )
  })

  it('are all processes, with isolation', () => {
    const place = all(one(1, 0), one(2, 1), one(30, 2), one(50, 1))
    expect([...processesOfSandbox(place, { sidecarPid: 2, jobOf, isIsolated: true }).keys()]).toEqual([
      1, 2, 30, 50,
    ])
  })

  it('are found without an endless loop when parents seem to form a cycle', () => {
    expect(jobsOf(all(one(5, 6), one(6, 5)), jobOf).size).toBe(0)
  })
})

describe('the stat line of a process', () => {
  it('is parsed correctly, whatever name the program has', () => {
    const rest = 'S 7 8 9 0 -1 4194560 1 2 3 4 11 12 13 14 20 0 1 0 555 1000 77 18446744073709551615 1 1'
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 15 }), (name) => {
        const line = Buffer.from(`42 (${name}) ${rest}\n`).toString('latin1')
        expect(parseStat(line)).toMatchObject({
          pid: 42,
          name: Buffer.from(name).toString(),
          state: 'S',
          parent: 7,
          group: 8,
          session: 9,
          cpuMs: 230,
          childrenCpuMs: 270,
          startedAfterMs: 5550,
          residentPages: 77,
        })
      }),
    )
  })

  it('is refused when it is not valid', () => {
    for (const line of ['', '1', '1 (x', ') 1 (', '1 (x) S', 'a (x) S 1 2 3'])
      expect(parseStat(line)).toBeUndefined()
  })

  it('is read for every process, and gives the page size', () => {
    expect(readProcesses().get(process.pid)!.parent).toBe(process.ppid)
    const page = Number(execFileSync('getconf', ['PAGESIZE'], { encoding: 'utf8' }))
    expect(pageBytes(readProcesses().get(process.pid))).toBe(page)
  })
})
