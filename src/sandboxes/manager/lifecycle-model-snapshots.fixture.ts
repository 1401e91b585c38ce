/** Snapshot and restore commands of the lifecycle model, complete and with a crash in the middle. */
import fc from 'fast-check'
import { expect } from 'vitest'
import type { CrashingManager } from './crashing-manager.fixture.ts'
import {
  type Command,
  countPassed,
  expectedState,
  formatCrash,
  type Model,
  moveModel,
  pick,
  requestOperation,
  requireAccounted,
} from './lifecycle-model.fixture.ts'

const MAX_SNAPSHOTS = 3

const pickKept = ({ kept: stored }: Model, n: number): string => [...stored.keys()][n % stored.size]!
const freshName = ({ kept: stored }: Model): string => `kept-${stored.size}`

export class SnapshotCommand implements Command {
  readonly n: number
  constructor(n: number) {
    this.n = n
  }
  check = ({ boxes, kept: stored }: Readonly<Model>) => boxes.size > 0 && stored.size < MAX_SNAPSHOTS
  async run(model: Model, real: CrashingManager) {
    const [id, { state, files }] = pick(model, this.n)
    const name = freshName(model)
    const made = requestOperation(real, { verb: 'snapshot', name }, id)
    if (expectedState('snapshot', state) === undefined)
      await expect(made).rejects.toMatchObject({ code: 'conflict' })
    else {
      await made
      model.kept.set(name, files)
    }
    await requireAccounted(model, real)
  }
  toString = () => `snapshot(${this.n})`
}

/** Restores any of the snapshots, including one of another sandbox. */
class Restore implements Command {
  readonly n: number
  readonly k: number
  constructor(n: number, k: number) {
    this.n = n
    this.k = k
  }
  check = ({ boxes, kept: stored }: Readonly<Model>) => boxes.size > 0 && stored.size > 0
  async run(model: Model, real: CrashingManager) {
    const [id, box] = pick(model, this.n)
    const name = pickKept(model, this.k)
    const done = requestOperation(real, { verb: 'restore', name }, id)
    const to = expectedState('restore', box.state)
    if (to === undefined) await expect(done).rejects.toMatchObject({ code: 'conflict' })
    else {
      await done
      // A restore stops the sandbox, even when it runs again afterwards.
      moveModel(model, id, 'stopped')
      moveModel(model, id, to)
      box.files = model.kept.get(name)!
    }
    await requireAccounted(model, real)
  }
  toString = () => `restore(${this.n}, ${this.k})`
}

/** The snapshot is complete and listed, or nothing of it is left. */
class CrashDuringSnapshot implements Command {
  readonly n: number
  readonly afterWrites: number
  readonly isLastDone: boolean
  constructor(n: number, afterWrites: number, isLastDone: boolean) {
    this.n = n
    this.afterWrites = afterWrites
    this.isLastDone = isLastDone
  }
  check = (model: Readonly<Model>) =>
    model.boxes.size > 0 &&
    model.kept.size < MAX_SNAPSHOTS &&
    expectedState('snapshot', pick(model as Model, this.n)[1].state) !== undefined
  async run(model: Model, real: CrashingManager) {
    const [id, { files }] = pick(model, this.n)
    const { afterWrites, isLastDone } = this
    const name = freshName(model)
    const before = await countPassed(real, 'snapshot', id)
    await real.crash({
      work: () => requestOperation(real, { verb: 'snapshot', name }, id),
      afterWrites,
      isLastDone,
    })
    if ((await countPassed(real, 'snapshot', id)) > before) model.kept.set(name, files)
    await requireAccounted(model, real)
  }
  toString = () => `snapshot(${this.n}), ${formatCrash(this)}`
}

/** The disk is the previous one or that of the snapshot. The sandbox may have been stopped without a restore. */
class CrashDuringRestore implements Command {
  readonly n: number
  readonly k: number
  readonly afterWrites: number
  readonly isLastDone: boolean
  constructor(n: number, k: number, afterWrites: number, isLastDone: boolean) {
    this.n = n
    this.k = k
    this.afterWrites = afterWrites
    this.isLastDone = isLastDone
  }
  check = (model: Readonly<Model>) =>
    model.boxes.size > 0 &&
    model.kept.size > 0 &&
    expectedState('restore', pick(model as Model, this.n)[1].state) !== undefined
  async run(model: Model, real: CrashingManager) {
    const [id, box] = pick(model, this.n)
    const { afterWrites, isLastDone } = this
    const name = pickKept(model, this.k)
    const before = await countPassed(real, 'restore', id)
    await real.crash({
      work: () => requestOperation(real, { verb: 'restore', name }, id),
      afterWrites,
      isLastDone,
    })
    if ((await countPassed(real, 'restore', id)) > before) box.files = model.kept.get(name)!
    const found = (await real.manager.get(id)).state
    expect([box.state, expectedState('restore', box.state), 'lost']).toContain(found)
    // The model does not track which jobs had ended by then, so all of them are stopped here.
    if (box.jobs.length > 0) await requestOperation(real, 'stop', id)
    box.jobs = []
    moveModel(model, id, (await real.manager.get(id)).state)
    await requireAccounted(model, real)
  }
  toString = () => `restore(${this.n}, ${this.k}), ${formatCrash(this)}`
}

/** Returns commands for one of the sandboxes that `n` chooses from. */
export function snapshotCommands(n: fc.Arbitrary<number>): fc.Arbitrary<Command>[] {
  const k = fc.nat(MAX_SNAPSHOTS - 1)
  return [
    n.map((of) => new SnapshotCommand(of)),
    fc.tuple(n, k).map(([of, to]) => new Restore(of, to)),
    fc
      .tuple(n, fc.nat(2), fc.boolean())
      .map(([of, writes, done]) => new CrashDuringSnapshot(of, writes, done)),
    fc
      .tuple(n, k, fc.nat(8), fc.boolean())
      .map(([of, to, writes, done]) => new CrashDuringRestore(of, to, writes, done)),
  ]
}
