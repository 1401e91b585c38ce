/** The manager with real sandboxes: bubblewrap, the real sidecar, the real store, and processes that are killed. */
import {
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Receipt } from '../../src/receipts/schema.ts'
import { processBackend } from '../../src/sandboxes/backends/process/backend.ts'
import { BoundaryReconciler } from '../../src/sandboxes/lifecycle/reconcile.ts'
import { requireAllDenied } from '../../src/sandboxes/manager/attempts.fixture.ts'
import {
  caller,
  exec,
  jobId,
  type ManagerScene,
  managerScene,
  readOutput,
} from '../../src/sandboxes/manager/manager.fixture.ts'
import { homeAt } from '../../src/store/home.ts'
import { openSqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { TestHome } from '../craik.ts'
import { lineOf, type Script, startScript } from '../faults/scripts.ts'

const MANAGER_SCRIPT = new URL('../faults/sandbox-holder.ts', import.meta.url)
const isRoot = process.geteuid?.() === 0

describe('a process sandbox', () => {
  let home: string
  beforeAll(() => {
    home = mkdtempSync(join(tmpdir(), 'craik-e2e-manager-'))
  })
  afterAll(() => rmSync(home, { recursive: true, force: true }))
  const isolated = () => managerScene(processBackend({ craikHome: home, environment: process.env }))

  it('lets no request reach its sidecar without a grant', async () => {
    await using scene = isolated()
    await requireAllDenied(scene, await scene.create({ isolation: 'process' }))
    await scene.restart()
  })

  it('is created, used, adopted by a new manager and removed without a trace', async () => {
    await using scene = isolated()
    const id = await scene.create({ isolation: 'process' })
    expect(await run(scene, id, 'sh', '-c', 'id -u; pwd; ls -A')).toMatchObject({
      stdout: '1000\n/workspace/home/project\n',
    })
    await scene.restart()
    expect((await run(scene, id, 'echo', 'still here')).stdout).toBe('still here\n')
    const view = await scene.manager.get(id)
    expect(view).toMatchObject({ isolation: 'process', connected: true })
    if (isRoot) expect(view.hostUid).toBeGreaterThan(1_000_000_000)
    const stats = await scene.manager.inside.stats(caller(), id)
    expect(stats.claimed.processes).toBeGreaterThan(0)
    expect(stats.enforced).toEqual(view.enforced)
    await scene.manager.delete(caller(), id)
    expect(readdirSync(join(scene.folder, 'sandboxes'))).toEqual([])
    expect(readFileSync('/proc/mounts', 'utf8')).not.toContain(id)
    expect(processesNaming(id)).toEqual([])
    expect(scene.complaints).toEqual([])
  })

  it('blocks its attempts to reach the network, with one receipt for many attempts', async () => {
    await using scene = isolated()
    const id = await scene.create({ isolation: 'process' })
    const attack = `
      const net = require('node:net'), all = []
      for (let i = 0; i < 100; i++) all.push(new Promise((resolve) => {
        const socket = net.connect(8118, '127.0.0.1', () => socket.write('CONNECT collector.example:443 HTTP/1.1\\r\\n\\r\\n'))
        let said = ''
        socket.on('data', (chunk) => { said += chunk }).on('error', () => resolve('')).on('close', () => resolve(said))
      }))
      Promise.all(all).then((answers) => {
        console.log(answers.find((answer) => answer !== '').split('\\r\\n').at(-1).trim())
        console.log(answers.filter((answer) => !/^(HTTP.1.1 403 |$)/.test(answer)).length)
      })`
    const ran = await run(scene, id, '/opt/craik/node', '-e', attack)
    expect(ran.stdout).toBe('blocked by craik: egress to collector.example:443 is not allowed\n0\n')
    await scene.manager.close()
    const denials = await scene.receipts({ kind: 'denial', capability: 'network.egress' })
    const counted = denials.reduce((sum, { metadata }) => sum + Number(metadata?.count), 0)
    expect(counted).toBeGreaterThan(0)
    expect(denials.length).toBeLessThan(counted)
    const [counts] = await scene.receipts({ capability: 'sandbox.boundary' })
    expect(counts?.measures).toContainEqual({ name: 'connections', value: counted, source: 'observed' })
    expect(await differences(scene.store.tables.receipts)).toEqual([])
  })

  it('ends a job that exceeds its memory, reports why where the host can see it, and keeps running', async () => {
    await using scene = isolated()
    const id = await scene.create({ isolation: 'process', limits: { memoryBytes: 256 * 1024 ** 2 } })
    const { enforced } = await scene.manager.get(id)
    expect(enforced?.memory).toMatch(/^(cgroup|per-process)$/)
    await run(scene, id, 'tail', '/dev/zero')
    const [end] = await scene.receipts({ operation: 'exec', phase: 'end' })
    expect(end).toMatchObject({ status: 'failed' })
    const types: string[] = []
    for await (const { type } of scene.manager.events(id, false, new AbortController().signal))
      types.push(type)
    // A limit for each process makes the program fail. The host sees only a kill by the kernel.
    expect(end?.metadata?.out_of_memory === true).toBe(enforced?.memory === 'cgroup')
    expect(types.includes('out_of_memory')).toBe(enforced?.memory === 'cgroup')
    expect((await run(scene, id, 'echo', 'alive')).stdout).toBe('alive\n')
  })

  it('works in place as the owner of the workspace, and never as root', async () => {
    await using scene = isolated()
    const workspace = join(scene.folder, 'project')
    mkdirSync(workspace)
    const owner = isRoot ? 12345 : process.geteuid!()
    const inPlace = { isolation: 'process', workspace: { mode: 'in-place', folder: workspace } } as const
    const ofRoot = { ...inPlace, workspace: { mode: 'in-place', folder: '/usr/share/doc' } } as const
    await expect(scene.create(ofRoot)).rejects.toMatchObject({ code: 'usage' })
    if (isRoot) chownSync(workspace, owner, owner)
    const id = await scene.create(inPlace)
    expect(await scene.manager.get(id)).toMatchObject({ hostUid: owner })
    await run(scene, id, 'touch', 'made-inside')
    expect(statSync(join(workspace, 'made-inside')).uid).toBe(owner)
    await scene.manager.delete(caller(), id)
    expect(existsSync(join(workspace, 'made-inside'))).toBe(true)
  })
})

describe('a manager process that is killed', () => {
  it('leaves its sandboxes running; the next one finds the jobs, their whole output and their real ends', async () => {
    using home = new TestHome()
    const first = await holder(home)
    const { id } = await runCommand(first, { do: 'create', isolation: 'process' })
    const [long, short] = [jobId(), jobId()]
    const longRun = ['sh', '-c', 'i=0; while [ $i -lt 60 ]; do echo $i; i=$((i+1)); sleep 0.02; done; exit 9']
    const begun = await runCommand(first, { do: 'start', id, job: long, argv: longRun })
    await runCommand(first, { do: 'start', id, job: short, argv: ['sh', '-c', 'sleep 0.1; exit 4'] })
    await kill(first)

    const second = await holder(home)
    const ran = await runCommand(second, { do: 'run', id, job: long, argv: longRun })
    expect(ran).toMatchObject({ created: false, receiptId: begun.receiptId, result: { exitCode: 9 } })
    expect(ran.stdout).toBe(Array.from({ length: 60 }, (_, i) => `${i}\n`).join(''))
    await runCommand(second, { do: 'wait', id })
    await runCommand(second, { do: 'delete', id })
    await runCommand(second, { do: 'leave' })
    await second.closed

    const bodies = await receiptsOf(home)
    const ends = bodies.filter(({ phase, operation }) => phase === 'end' && operation === 'exec')
    expect(ends).toHaveLength(2)
    for (const job_id of [long, short]) {
      expect(ends.find(({ links }) => links.job_id === job_id)).toMatchObject({
        status: 'failed',
        metadata: { adopted: true, outcome: 'exited' },
      })
    }
    await expectComplete(home)
  })

  it('at any moment runs a repeated request only once, and every receipt has its end', async () => {
    using home = new TestHome()
    const maker = await holder(home)
    const { id } = await runCommand(maker, { do: 'create', isolation: 'process' })
    await runCommand(maker, { do: 'leave' })
    await maker.closed
    for (let round = 0; round < 8; round++) {
      const [job, upload] = [jobId(), jobId()]
      const run = { do: 'run', id, job, argv: ['sh', '-c', `echo ran >> count-${round}; cat count-${round}`] }
      const send = { do: 'upload', id, job: upload, text: `round ${round}` }
      const killed = await holder(home)
      sendCommand(killed, run)
      sendCommand(killed, send)
      await lineOf(killed, (line) => line.includes('begun'))
      await sleep(Math.random() * 40)
      await kill(killed)
      const next = await holder(home)
      expect(await runCommand(next, run)).toMatchObject({ stdout: 'ran\n', result: { exitCode: 0 } })
      expect(await runCommand(next, send)).toMatchObject({ committed: true })
      await runCommand(next, { do: 'leave' })
      await next.closed
    }
    const last = await holder(home)
    await runCommand(last, { do: 'delete', id })
    await runCommand(last, { do: 'leave' })
    await last.closed
    await expectComplete(home)
  })

  it('during a create leaves a running sandbox or nothing, because the next one removes an unfinished sandbox', async () => {
    using home = new TestHome()
    for (let round = 0; round < 4; round++) {
      const first = await holder(home)
      sendCommand(first, { do: 'create', isolation: 'process' })
      await lineOf(first, (line) => line.includes('begun'))
      await sleep(Math.random() * 250)
      await kill(first)
      const second = await holder(home)
      // Either the sandbox was created, or nothing of it exists.
      const views = (await runCommand(second, { do: 'list' })) as unknown as { id: string; state: string }[]
      for (const { id, state } of views) {
        expect(state).toBe('running')
        await runCommand(second, { do: 'delete', id })
      }
      const folder = join(home.home, 'sandboxes')
      expect(existsSync(folder) ? readdirSync(folder) : []).toEqual([])
      await runCommand(second, { do: 'leave' })
      await second.closed
    }
    await expectComplete(home)
    expect(processesNaming(home.home)).toEqual([])
  })
})

async function run(
  scene: ManagerScene,
  id: Parameters<ManagerScene['manager']['delete']>[1],
  ...argv: string[]
) {
  const { output } = await scene.manager.jobs.start(caller(), id, jobId(), { spec: exec(...argv) })
  return readOutput(output)
}

async function holder(home: TestHome): Promise<Script> {
  const script = startScript(MANAGER_SCRIPT, [home.home])
  await lineOf(script, (line) => line.includes('ready'))
  return script
}

function sendCommand(script: Script, what: object): void {
  script.process.stdin!.write(`${JSON.stringify(what)}\n`)
}

/** Resolves with the result of the command. Throws if the command failed. */
async function runCommand(script: Script, what: object): Promise<Record<string, never>> {
  const isAnswer = (line: string) =>
    line.startsWith('{"did"') || line.startsWith('{"failed"') || line === '{}'
  const before = script.lines.filter(isAnswer).length
  sendCommand(script, what)
  await lineOf(script, () => script.lines.filter(isAnswer).length > before)
  const answer = JSON.parse(script.lines.filter(isAnswer)[before]!)
  if ('failed' in answer) throw new Error(`${JSON.stringify(what)}: ${answer.message} ${script.stderr}`)
  return answer.did
}

async function kill(script: Script): Promise<void> {
  script.process.kill('SIGKILL')
  await script.closed
}

async function receiptsOf(home: TestHome): Promise<readonly Receipt['body'][]> {
  await using store = await openSqliteStore(
    homeAt(home.home),
    new URL('../../src/writer.ts', import.meta.url),
  )
  const rows = await store.read((tables) => tables.receipts.scan(0, 100_000))
  return rows.map(({ line }) => (JSON.parse(line) as Receipt).body)
}

/** Checks that no receipt is open, and that every counted operation has a receipt. */
async function expectComplete(home: TestHome): Promise<void> {
  await using store = await openSqliteStore(
    homeAt(home.home),
    new URL('../../src/writer.ts', import.meta.url),
  )
  expect(await store.read((tables) => tables.openReceipts.list())).toEqual([])
  expect(await store.read((tables) => differences(tables.receipts))).toEqual([])
}

async function differences(
  receipts: ManagerScene['store']['tables']['receipts'],
): Promise<readonly unknown[]> {
  const reconciler = new BoundaryReconciler()
  for (const { line, seq } of await receipts.scan(0, 100_000)) reconciler.receipt(Buffer.from(line), seq)
  return reconciler.finish().differ
}

function processesNaming(what: string): string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(what)
      } catch {
        return false
      }
    })
}
