import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { newId, type SandboxId } from '../../../lib/ids.ts'
import { currentOwner, type Owner, ownerOf, ownerState } from '../../../lib/owner.ts'
import { TestFolder } from '../../sandbox.fixture.ts'
import { childrenOf } from './descendants.ts'
import { endOnHost } from './host-instance.ts'
import {
  endAll,
  findInstanceProcesses,
  observeProcesses,
  type ProcessQuery,
  signalOwner,
  withDescendants,
} from './instance-processes.ts'
import { INHERITED_MARKER, MARKER } from './launch-process.ts'

let test: TestFolder
let query: ProcessQuery
let started: ChildProcess[]
beforeEach(() => {
  test = new TestFolder()
  const id = newId<SandboxId>('sbx', Date.now())
  query = { id, folder: test.path(id) }
  started = []
})
afterEach(() => {
  for (const { pid } of started) {
    try {
      process.kill(-pid!, 'SIGKILL')
    } catch {}
  }
  test[Symbol.dispose]()
})

/** Prints a line when it runs, and runs until it is killed. */
const WAIT = 'echo ready; while :; do sleep 1000; done'

async function run(argv: readonly string[], env: Record<string, string> = {}): Promise<Owner> {
  const child = spawn(argv[0]!, argv.slice(1), {
    env: { ...env, PATH: process.env.PATH! },
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true,
  })
  started.push(child)
  await once(child.stdout, 'data')
  return ownerOf(child.pid!)!
}
const shell = (env: Record<string, string> = {}) => run(['sh', '-c', WAIT], env)
const pids = (owners: readonly Owner[]) => owners.map(({ pid }) => pid).sort((a, b) => a - b)
const withNumberOf = (owner: Owner): Owner => ({ ...owner, startedAt: '1' })

describe('the processes of a sandbox', () => {
  it('are found by either mark, without any other process', async () => {
    const marked = [await shell({ [MARKER]: query.id }), await shell({ [INHERITED_MARKER]: query.id })]
    await shell({ [MARKER]: `${query.id}0` })
    await shell({ NOTE: `${MARKER}=${query.id}` })
    const found = pids(await findInstanceProcesses(query))
    expect(found).toEqual(pids(marked.flatMap(withDescendants)))
    await endAll(() => findInstanceProcesses(query))
    expect(marked.map(ownerState)).toEqual(['dead', 'dead'])
  })

  it('are not found by a mark far into the environment, so a long environment cannot delay a sweep', async () => {
    const long = Object.fromEntries(Array.from({ length: 4 }, (_, i) => [`LONG_${i}`, 'x'.repeat(100_000)]))
    await run(['sh', '-c', WAIT], { ...long, [MARKER]: query.id })
    const early = await run(['sh', '-c', WAIT], { [MARKER]: query.id, ...long })
    expect(pids(await findInstanceProcesses(query))).toContain(early.pid)
    expect((await findInstanceProcesses(query)).length).toBeLessThanOrEqual(withDescendants(early).length)
  })

  it('are not searched for in the memory of processes in a sandbox', async () => {
    const inside = ['sh', '-c', `${MARKER}=${query.id} sh -c '${WAIT}' & wait`]
    const outer = await run([
      'bwrap',
      '--unshare-user',
      '--unshare-pid',
      '--as-pid-1',
      '--dev-bind',
      '/',
      '/',
      '--proc',
      '/proc',
      '--',
      ...inside,
    ])
    const [first] = childrenOf(outer.pid)
    const [marked] = childrenOf(first!)
    expect(readFileSync(`/proc/${marked}/environ`, 'utf8')).toContain(query.id)
    expect(await findInstanceProcesses(query)).toEqual([])
  })

  if (process.getuid?.() === 0)
    it('are not searched for in the memory of another user’s programs', async () => {
      const setpriv = ['setpriv', '--reuid', '12345', '--regid', '12345', '--clear-groups', '--']
      const theirs = await run([...setpriv, 'sh', '-c', WAIT], { [MARKER]: query.id })
      expect(await findInstanceProcesses(query)).toEqual([])
      const found = await findInstanceProcesses({ ...query, hostUser: { uid: 12_345, gid: 12_345 } })
      expect(pids(found)).toContain(theirs.pid)
    })

  it('are searched for without blocking the event loop', async () => {
    let turns = 0
    const timer = setInterval(() => turns++, 1)
    try {
      for (let i = 0; i < 5; i++) await findInstanceProcesses(query)
      expect(turns).toBeGreaterThan(0)
    } finally {
      clearInterval(timer)
    }
  })
})

describe('the pid of an exited process that another process has now', () => {
  it('ends, signals and counts nothing', async () => {
    const foreign = await shell()
    const gone = withNumberOf(foreign)
    expect(withDescendants(gone)).toEqual([])
    expect(await observeProcesses(gone)).toEqual({})
    signalOwner(gone, 'SIGKILL')
    await endOnHost(
      {
        ...query,
        id: query.id as SandboxId,
        isolation: 'none',
        workspace: { mode: 'copy' },
        limits: { memoryBytes: 1, processes: 1 },
        hostUser: undefined,
      },
      gone,
    )
    expect(ownerState(foreign)).toBe('alive')
    expect(withDescendants(foreign).length).toBeGreaterThan(0)
  })

  it('causes no error when the process is gone', async () => {
    const owner = await shell()
    process.kill(-owner.pid, 'SIGKILL')
    while (existsSync(`/proc/${owner.pid}`)) await sleep(5)
    signalOwner(owner, 'SIGTERM')
    expect(withDescendants(owner)).toEqual([])
  })
})

describe('the descendants of a process', () => {
  it('are found and counted', async () => {
    const owner = await shell()
    const below = withDescendants(owner)
    expect(below[0]).toEqual(owner)
    expect(await observeProcesses(owner)).toMatchObject({
      processes: below.length,
      cpuMs: expect.any(Number),
    })
    expect(pids(withDescendants(currentOwner()))).toEqual(expect.arrayContaining(pids(below)))
  })

  it('are found while threads of the process start and exit', { timeout: 60_000 }, async () => {
    const program = join(test.folder, 'threads.mjs')
    const script = `
      import { spawn } from 'node:child_process'
      import { writeSync } from 'node:fs'
      import { Worker } from 'node:worker_threads'
      spawn('sleep', ['1000'], { stdio: 'ignore' })
      const next = () => new Worker('0', { eval: true }).once('exit', next)
      for (let i = 0; i < 8; i++) next()
      writeSync(1, 'ready')`
    writeFileSync(program, script)
    const owner = await run([process.execPath, program])
    for (let i = 0; i < 3000; i++) expect(childrenOf(owner.pid)).toHaveLength(1)
  })
})
