/**
 * Commands in any order, with crashes between and within them: the state always follows the table, and receipts account
 * for everything.
 */
import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { SandboxState } from '../lifecycle/transitions.ts'
import { CrashingManager } from './crashing-manager.fixture.ts'
import {
  ASKED,
  type Command,
  expectedState,
  formatCrash,
  type Model,
  type ModelOperation,
  moveModel,
  pick,
  requestOperation,
  requireAccounted,
} from './lifecycle-model.fixture.ts'
import { SnapshotCommand, snapshotCommands } from './lifecycle-model-snapshots.fixture.ts'
import {
  allowCreate,
  caller,
  eventually,
  exec,
  jobId,
  readOutput,
  SANDBOX_REQUEST,
} from './manager.fixture.ts'

const RUNS = process.env.CRAIK_SOAK === '1' ? 200 : 10
const MAX_COMMANDS = 12
const MAX_SANDBOXES = 2

class Create implements Command {
  check = ({ boxes }: Readonly<Model>) => boxes.size < MAX_SANDBOXES
  async run(model: Model, real: CrashingManager) {
    await allowCreate(real.store)
    const { id } = await real.manager.create(caller(), SANDBOX_REQUEST)
    model.boxes.set(id, { state: 'running', jobs: [], ended: new Map(), files: 0 })
    await requireAccounted(model, real)
  }
  toString = () => 'create'
}

class Do implements Command {
  readonly verb: ModelOperation
  readonly n: number
  constructor(verb: ModelOperation, n: number) {
    this.verb = verb
    this.n = n
  }
  check = ({ boxes }: Readonly<Model>) => boxes.size > 0
  async run(model: Model, real: CrashingManager) {
    const [id, { state }] = pick(model, this.n)
    const to = expectedState(this.verb, state)
    if (to === undefined)
      await expect(requestOperation(real, this.verb, id)).rejects.toMatchObject({ code: 'conflict' })
    else {
      await requestOperation(real, this.verb, id)
      moveModel(model, id, to)
    }
    await requireAccounted(model, real)
  }
  toString = () => `${this.verb}(${this.n})`
}

/**
 * Runs a command that writes, or expects an error when the sandbox is stopped. The written lines are there whenever it
 * runs again.
 */
class Exec implements Command {
  readonly n: number
  constructor(n: number) {
    this.n = n
  }
  check = ({ boxes }: Readonly<Model>) => boxes.size > 0
  async run(model: Model, real: CrashingManager) {
    const [id, box] = pick(model, this.n)
    const start = () =>
      real.manager.jobs.start(caller(), id, jobId(), { spec: exec('sh', '-c', 'echo >> log; wc -l < log') })
    if (box.state !== 'running') await expect(start()).rejects.toMatchObject({ code: 'sandbox_stopped' })
    else {
      box.files++
      expect((await readOutput((await start()).output)).stdout.trim()).toBe(String(box.files))
    }
    await requireAccounted(model, real)
  }
  toString = () => `exec(${this.n})`
}

class Detach implements Command {
  readonly n: number
  constructor(n: number) {
    this.n = n
  }
  check = (model: Readonly<Model>) =>
    model.boxes.size > 0 && pick(model as Model, this.n)[1].state === 'running'
  async run(model: Model, real: CrashingManager) {
    const [id, box] = pick(model, this.n)
    const job = jobId()
    const { output } = await real.manager.jobs.start(caller(), id, job, { spec: exec('sleep', '120') })
    output.destroy()
    box.jobs.push(job)
    await requireAccounted(model, real)
  }
  toString = () => `detach(${this.n})`
}

/** Kills the sandbox from outside Craik. */
class Kill implements Command {
  readonly n: number
  constructor(n: number) {
    this.n = n
  }
  check = (model: Readonly<Model>) =>
    model.boxes.size > 0 && ['running', 'paused'].includes(pick(model as Model, this.n)[1].state)
  async run(model: Model, real: CrashingManager) {
    const [id] = pick(model, this.n)
    process.kill(real.backend.pids.get(id)!, 'SIGKILL')
    await eventually(async () => ((await real.manager.get(id)).state === 'lost' ? true : undefined))
    moveModel(model, id, 'lost')
    await requireAccounted(model, real)
  }
  toString = () => `kill(${this.n})`
}

class Crash implements Command {
  check = () => true
  async run(model: Model, real: CrashingManager) {
    await real.crash()
    await requireAccounted(model, real)
  }
  toString = () => 'crash'
}

/** An operation without a recorded begin changes nothing. A begun one is finished or undone, as the table says. */
class CrashDuring implements Command {
  /** Selects one of the verbs that the state allows. */
  readonly which: number
  readonly n: number
  readonly afterWrites: number
  readonly isLastDone: boolean
  constructor(which: number, n: number, afterWrites: number, isLastDone: boolean) {
    this.which = which
    this.n = n
    this.afterWrites = afterWrites
    this.isLastDone = isLastDone
  }
  check = ({ boxes }: Readonly<Model>) => boxes.size > 0
  async run(model: Model, real: CrashingManager) {
    const [id, { state }] = pick(model, this.n)
    const { which, afterWrites, isLastDone } = this
    const possible = ASKED.filter((one) => (expectedState(one, state) ?? state) !== state)
    const verb = possible[which % possible.length]!
    await real.crash({ work: () => requestOperation(real, verb, id), afterWrites, isLastDone })
    const found = (await real.manager.list()).find((listed) => listed.id === id)?.state ?? 'removed'
    const to = expectedState(verb, state)
    expect([state, ...(to === undefined ? [] : [to])]).toContain(found)
    moveModel(model, id, found as SandboxState)
    await requireAccounted(model, real)
  }
  toString = () => `verb ${this.which} of (${this.n}), ${formatCrash(this)}`
}

const n = fc.nat(MAX_SANDBOXES - 1)
const verb = fc.constantFrom(...ASKED)
const crashDuring = fc
  .tuple(fc.nat(3), n, fc.nat(5), fc.boolean())
  .map(([which, of, writes, done]) => new CrashDuring(which, of, writes, done))
const COMMANDS = [
  fc.constant(new Create()),
  fc.tuple(verb, n).map(([requested, of]) => new Do(requested, of)),
  n.map((of) => new Exec(of)),
  n.map((of) => new Detach(of)),
  n.map((of) => new Kill(of)),
  fc.constant(new Crash()),
  crashDuring,
  crashDuring,
  crashDuring,
  ...snapshotCommands(n),
]

it('follows the table for any order of commands and any crash', { timeout: 600_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(fc.commands(COMMANDS, { maxCommands: MAX_COMMANDS, size: 'max' }), async (commands) => {
      await using real = new CrashingManager()
      const model: Model = { boxes: new Map(), kept: new Map() }
      await new Create().run(model, real)
      await new Detach(0).run(model, real)
      await new SnapshotCommand(0).run(model, real)
      await fc.asyncModelRun(() => ({ model, real }), commands)
    }),
    { numRuns: RUNS, endOnFailure: true },
  )
})
