/** The lifecycle model's state of each sandbox and snapshot, and its comparison with the real ones. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type fc from 'fast-check'
import { expect } from 'vitest'
import type { SandboxId } from '../../lib/ids.ts'
import { outcomeOf, type SandboxState, TRANSITIONS, type Verb, verbFor } from '../lifecycle/transitions.ts'
import type { CrashingManager } from './crashing-manager.fixture.ts'
import { caller, eventually } from './manager.fixture.ts'

interface Box {
  state: SandboxState
  jobs: string[]
  /** How the ended jobs ended together with their sandbox instance. */
  ended: Map<string, 'stopped' | 'lost'>
  /** The number of lines that commands wrote to the workspace. */
  files: number
}
export interface Model {
  readonly boxes: Map<SandboxId, Box>
  /** The number of written lines at the time of each snapshot, by its name. */
  readonly kept: Map<string, number>
}
export type Command = fc.AsyncCommand<Model, CrashingManager>
export const ASKED = ['stop', 'resume', 'pause', 'delete'] as const
export type ModelOperation = (typeof ASKED)[number]
/** The name of the snapshot to take or restore. */
type RequestOf = ModelOperation | { readonly verb: 'snapshot' | 'restore'; readonly name: string }

export function requestOperation(
  { manager }: CrashingManager,
  request: RequestOf,
  id: SandboxId,
): Promise<unknown> {
  if (request === 'stop') return manager.stop(caller(), id, { graceMs: 2_000 })
  if (typeof request === 'string') return manager[request](caller(), id)
  const { verb, name } = request
  return verb === 'snapshot' ? manager.snapshot(caller(), id, { name }) : manager.restore(caller(), id, name)
}

export const pick = ({ boxes }: Model, n: number): [SandboxId, Box] => [...boxes][n % boxes.size]!

/** Returns the state that the table leads to, or `undefined` when the table refuses the verb. */
export function expectedState(verb: Verb, state: SandboxState): SandboxState | 'removed' | undefined {
  const chosen = verbFor(verb, state)
  const { from, already } = TRANSITIONS[chosen]
  if (already.includes(state)) return state
  return from.includes(state) ? outcomeOf(chosen, 'passed', state, state === 'running') : undefined
}

export function moveModel(model: Model, id: SandboxId, to: SandboxState | 'removed'): void {
  const box = model.boxes.get(id)!
  if (to === 'removed') model.boxes.delete(id)
  else {
    if (to === 'stopped' || to === 'lost') for (const job of box.jobs.splice(0)) box.ended.set(job, to)
    box.state = to
  }
}

export function formatCrash({
  afterWrites,
  isLastDone,
}: {
  afterWrites: number
  isLastDone: boolean
}): string {
  return `crash after ${afterWrites}${isLastDone ? ' and a half' : ''}`
}

/** Counts the operations that the log records as passed. */
export async function countPassed(
  { store }: CrashingManager,
  operation: string,
  id: SandboxId,
): Promise<number> {
  const ends = (await store.bodies()).filter((body) => body.phase === 'end' && body.status === 'passed')
  return ends.filter((body) => body.operation === operation && body.links.sandbox_id === id).length
}

export async function requireAccounted(model: Model, real: CrashingManager): Promise<void> {
  const { manager, store } = real
  const { boxes, kept: stored } = model
  const listed = (await manager.list()).map(({ id, state }) => [id, state])
  expect(Object.fromEntries(listed)).toEqual(
    Object.fromEntries([...boxes].map(([id, { state }]) => [id, state])),
  )
  expect(real.folders().toSorted()).toEqual([...boxes.keys()].toSorted())
  const snapshots = await manager.snapshots.list()
  expect(snapshots.map(({ name }) => name).toSorted()).toEqual([...stored.keys()].toSorted())
  expect(namesIn(store.home.snapshots)).toEqual(snapshots.map(({ id }) => id).toSorted())
  for (const id of boxes.keys())
    expect(
      namesIn(join(real.folder, 'sandboxes', id)).filter((name) => /\.(next|before)$/.test(name)),
    ).toEqual([])
  for (const [id, { state }] of boxes) {
    const hasInstance = state === 'running' || state === 'paused'
    expect([id, isAlive(real.backend.pids.get(id)!)]).toEqual([id, hasInstance])
    if (state === 'running')
      await eventually(async () => ((await manager.get(id)).connected ? true : undefined))
  }
  expect(manager.busy).toBe(
    [...boxes.values()].some(({ state }) => state === 'running' || state === 'paused'),
  )
  // Every begin has exactly one end, except those of running jobs.
  const bodies = await store.bodies()
  const begins = bodies.filter(({ phase }) => phase === 'begin').map(({ id }) => id)
  const ends = bodies.filter(({ phase }) => phase === 'end').map(({ begin_id }) => begin_id)
  expect(new Set(ends).size).toBe(ends.length)
  const open = begins.filter((id) => !ends.includes(id))
  // The end of a snapshot’s use is written only for processes that really died, when the store is opened.
  const uses = bodies.filter(({ operation }) => operation === 'use').map(({ id }) => id)
  expect(open.filter((id) => !uses.includes(id))).toHaveLength(
    [...boxes.values()].reduce((sum, { jobs }) => sum + jobs.length, 0),
  )
  for (const { ended } of boxes.values())
    for (const [job, outcome] of ended) {
      const end = bodies.find(({ phase, links }) => phase === 'end' && links.job_id === job)
      expect([job, end?.metadata?.outcome]).toEqual([job, outcome])
    }
  expect((await store.tables.openReceipts.list()).map(({ id }) => id).toSorted()).toEqual(open.toSorted())
}

function namesIn(folder: string): string[] {
  return existsSync(folder) ? readdirSync(folder).toSorted() : []
}

/** An ended process keeps its id until its parent reads its exit code. */
function isAlive(pid: number): boolean {
  try {
    return !/^State:\t[ZX]/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return false
  }
}
