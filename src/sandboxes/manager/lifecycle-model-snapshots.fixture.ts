/** Snapshots and restores of the model of the lifecycle, whole and with a crash in the middle. */
import fc from 'fast-check'
import { expect } from 'vitest'
import type { CrashingManager } from './crashing-manager.fixture.ts'
import {
  ask,
  type Command,
  expected,
  type Model,
  move,
  passed,
  pick,
  requireAccounted,
  spelled,
} from './lifecycle-model.fixture.ts'

const MAX_SNAPSHOTS = 3

const pickKept = ({ kept }: Model, n: number): string => [...kept.keys()][n % kept.size]!
const freshName = ({ kept }: Model): string => `kept-${kept.size}`

export class Snapshot implements Command {
  readonly n: number
  constructor(n: number) {
    this.n = n
  }
  check = ({ boxes, kept }: Readonly<Model>) => boxes.size > 0 && kept.size < MAX_SNAPSHOTS
  async run(model: Model, real: CrashingManager) {
    const [id, { state, files }] = pick(model, this.n)
    const name = freshName(model)
    const made = ask(real, { verb: 'snapshot', name }, id)
    if (expected('snapshot', state) === undefined)
      await expect(made).rejects.toMatchObject({ code: 'conflict' })
    else {
      await made
      model.kept.set(name, files)
    }
    await requireAccounted(model, real)
  }
  toString = () => `snapshot(${this.n})`
}

/** To any of them, also one of another sandbox. */
class Restore implements Command {
  readonly n: number
  readonly k: number
  constructor(n: number, k: number) {
    this.n = n
    this.k = k
  }
  check = ({ boxes, kept }: Readonly<Model>) => boxes.size > 0 && kept.size > 0
  async run(model: Model, real: CrashingManager) {
    const [id, box] = pick(model, this.n)
    const name = pickKept(model, this.k)
    const done = ask(real, { verb: 'restore', name }, id)
    const to = expected('restore', box.state)
    if (to === undefined) await expect(done).rejects.toMatchObject({ code: 'conflict' })
    else {
      await done
      // What ran was ended for it, also where it runs again.
      move(model, id, 'stopped')
      move(model, id, to)
      box.files = model.kept.get(name)!
    }
    await requireAccounted(model, real)
  }
  toString = () => `restore(${this.n}, ${this.k})`
}

/** The snapshot is whole and listed, or there is nothing of it. */
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
    expected('snapshot', pick(model as Model, this.n)[1].state) !== undefined
  async run(model: Model, real: CrashingManager) {
    const [id, { files }] = pick(model, this.n)
    const { afterWrites, isLastDone } = this
    const name = freshName(model)
    const before = await passed(real, 'snapshot', id)
    await real.crash({ work: () => ask(real, { verb: 'snapshot', name }, id), afterWrites, isLastDone })
    if ((await passed(real, 'snapshot', id)) > before) model.kept.set(name, files)
    await requireAccounted(model, real)
  }
  toString = () => `snapshot(${this.n}), ${spelled(this)}`
}

/** The disk is the one before or that of the snapshot; what ran may have ended for nothing. */
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
    expected('restore', pick(model as Model, this.n)[1].state) !== undefined
  async run(model: Model, real: CrashingManager) {
    const [id, box] = pick(model, this.n)
    const { afterWrites, isLastDone } = this
    const name = pickKept(model, this.k)
    const before = await passed(real, 'restore', id)
    await real.crash({ work: () => ask(real, { verb: 'restore', name }, id), afterWrites, isLastDone })
    if ((await passed(real, 'restore', id)) > before) box.files = model.kept.get(name)!
    const found = (await real.manager.get(id)).state
    expect([box.state, expected('restore', box.state), 'lost']).toContain(found)
    // Which of its jobs had been ended by then is not told; now all of them are.
    if (box.jobs.length > 0) await ask(real, 'stop', id)
    box.jobs = []
    move(model, id, (await real.manager.get(id)).state)
    await requireAccounted(model, real)
  }
  toString = () => `restore(${this.n}, ${this.k}), ${spelled(this)}`
}

/** Of one of the sandboxes that `n` chooses from. */
export function snapshotCommands(n: fc.Arbitrary<number>): fc.Arbitrary<Command>[] {
  const k = fc.nat(MAX_SNAPSHOTS - 1)
  return [
    n.map((of) => new Snapshot(of)),
    fc.tuple(n, k).map(([of, to]) => new Restore(of, to)),
    fc
      .tuple(n, fc.nat(2), fc.boolean())
      .map(([of, writes, done]) => new CrashDuringSnapshot(of, writes, done)),
    fc
      .tuple(n, k, fc.nat(8), fc.boolean())
      .map(([of, to, writes, done]) => new CrashDuringRestore(of, to, writes, done)),
  ]
}
