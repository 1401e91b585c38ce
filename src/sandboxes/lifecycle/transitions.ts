/**
 * The states of a sandbox, and what leads from one to another. What is not in this table does not happen: whoever
 * begins, ends or recovers something asks here.
 */
import { CraikError } from '../../errors.ts'
import type { OperationName } from '../operations.ts'

export const SANDBOX_STATES = [
  'creating',
  'running',
  'pausing',
  'paused',
  'stopping',
  'stopped',
  'resuming',
  'snapshotting',
  'restoring',
  'deleting',
  'lost',
] as const
/** `stopped`: nothing runs, its disk is kept. `lost`: the same, but nobody told it to end, or ending it failed. */
export type SandboxState = (typeof SANDBOX_STATES)[number]

interface StateFacts {
  /** Whether a place may exist, which takes memory and processors of this machine. */
  readonly takesRoom: boolean
  /** In the words of "sandbox parser is …". */
  readonly told: string
  /** The command that leads on, with the id in place of ID. */
  readonly next: string
}

const SEE = 'craik sandbox show ID'
const RESUME = 'craik sandbox resume ID'

export const STATES: Readonly<Record<SandboxState, StateFacts>> = {
  creating: { takesRoom: true, told: 'still being created', next: SEE },
  running: { takesRoom: true, told: 'running', next: SEE },
  pausing: { takesRoom: true, told: 'being paused', next: SEE },
  paused: { takesRoom: true, told: 'paused; resume it first', next: RESUME },
  stopping: { takesRoom: true, told: 'being stopped', next: SEE },
  stopped: { takesRoom: false, told: 'stopped; resume it first', next: RESUME },
  resuming: { takesRoom: true, told: 'being resumed', next: SEE },
  snapshotting: { takesRoom: true, told: 'being snapshotted', next: SEE },
  restoring: { takesRoom: true, told: 'being restored', next: SEE },
  deleting: { takesRoom: true, told: 'being deleted', next: SEE },
  lost: { takesRoom: false, told: 'lost', next: RESUME },
}

/** What is asked of a sandbox as a whole. `resume` is `unpause` when it is paused. */
export const VERBS = [
  'create',
  'stop',
  'resume',
  'unpause',
  'pause',
  'snapshot',
  'restore',
  'delete',
] as const
export type Verb = (typeof VERBS)[number]

/** `before`: the state in which it began. `removed`: there is no record any more. */
type Outcome = SandboxState | 'before' | 'removed'

interface Transition {
  /** What policy is asked. */
  readonly operation: OperationName
  readonly from: readonly SandboxState[]
  /** In these it is done already: it succeeds, with receipts that say so. */
  readonly already: readonly SandboxState[]
  readonly during: SandboxState
  readonly passed: Outcome
  /** The same when a place was started in it; only of what starts one or not. */
  readonly started?: SandboxState
  /** Also when it is not known how far it got. */
  readonly failed: Outcome
  /**
   * What the next process does when the one that began it died in the middle. `finish`: does the rest of it, and ends
   * it as passed. `undo`: brings back what was before, and ends it as indeterminate, which leads where `failed` does.
   */
  readonly recovery: 'finish' | 'undo'
}

export const TRANSITIONS: Readonly<Record<Verb, Transition>> = {
  create: {
    operation: 'create',
    from: [],
    already: [],
    during: 'creating',
    passed: 'running',
    failed: 'removed',
    recovery: 'undo',
  },
  stop: {
    operation: 'stop',
    from: ['running', 'paused', 'lost'],
    already: ['stopped'],
    during: 'stopping',
    passed: 'stopped',
    failed: 'lost',
    recovery: 'finish',
  },
  resume: {
    operation: 'resume',
    from: ['stopped', 'lost'],
    already: ['running'],
    during: 'resuming',
    passed: 'running',
    failed: 'before',
    recovery: 'undo',
  },
  unpause: {
    operation: 'resume',
    from: ['paused'],
    already: ['running'],
    during: 'resuming',
    passed: 'running',
    failed: 'before',
    recovery: 'finish',
  },
  pause: {
    operation: 'pause',
    from: ['running'],
    already: ['paused'],
    during: 'pausing',
    passed: 'paused',
    failed: 'before',
    recovery: 'undo',
  },
  snapshot: {
    operation: 'snapshot',
    from: ['running', 'paused', 'stopped'],
    already: [],
    during: 'snapshotting',
    passed: 'before',
    failed: 'before',
    recovery: 'undo',
  },
  restore: {
    operation: 'restore',
    from: ['running', 'stopped', 'lost'],
    already: [],
    during: 'restoring',
    passed: 'stopped',
    started: 'running',
    failed: 'before',
    recovery: 'undo',
  },
  delete: {
    operation: 'delete',
    from: ['running', 'paused', 'stopped', 'lost'],
    already: [],
    during: 'deleting',
    passed: 'removed',
    failed: 'lost',
    recovery: 'finish',
  },
}

/** What may happen without anybody asking: its last process ended. */
export const LOSS = { from: ['running', 'paused'], to: 'lost' } as const satisfies {
  readonly from: readonly SandboxState[]
  readonly to: SandboxState
}

/** Only then is anything in it reached. */
export const OPERABLE: SandboxState = 'running'

/** What is in progress, by the state that it shows; `from` tells `resume` and `unpause` apart. */
export function verbInProgress(state: SandboxState, from: SandboxState | null): Verb | undefined {
  const found = VERBS.filter((verb) => TRANSITIONS[verb].during === state)
  return found.find((verb) => from !== null && TRANSITIONS[verb].from.includes(from)) ?? found[0]
}

/** Where it goes; `from` is null in what was begun by a Craik that did not write it down. */
export function outcomeOf(
  verb: Verb,
  status: 'passed' | 'failed' | 'indeterminate',
  from: SandboxState | null,
  hasStarted = false,
): SandboxState | 'removed' {
  const { passed, started, failed } = TRANSITIONS[verb]
  const outcome = status !== 'passed' ? failed : hasStarted ? (started ?? passed) : passed
  return outcome === 'before' ? (from ?? 'lost') : outcome
}

/** `resume` of a paused one only lets it go on. */
export function verbFor(verb: Verb, state: SandboxState): Verb {
  return verb === 'resume' && TRANSITIONS.unpause.from.includes(state) ? 'unpause' : verb
}

/** The sandbox exists, and nothing in it can be reached now. */
export function notRunning(sandbox: {
  readonly id: string
  readonly name: string
  readonly state: SandboxState
  readonly notice: string | null
}): CraikError {
  const { told: message, next } = STATES[sandbox.state]
  const why = sandbox.state === 'lost' && sandbox.notice !== null ? `: ${sandbox.notice}` : ''
  return new CraikError('sandbox_stopped', `sandbox ${sandbox.name} is ${message}${why}`, {
    hint: hintOf(next, sandbox),
    details: { state: sandbox.state },
  })
}

/** Something else is at it, or its state does not allow it. */
export function notPossible(
  verb: Verb,
  sandbox: { readonly id: string; readonly name: string; readonly state: SandboxState },
): CraikError {
  const { told: message, next } = STATES[sandbox.state]
  return new CraikError('conflict', `cannot ${verb} sandbox ${sandbox.name}: it is ${message}`, {
    hint: hintOf(next, sandbox),
    details: { state: sandbox.state },
  })
}

function hintOf(next: string, { name }: { readonly name: string }): string {
  return `${next === RESUME ? 'resume it' : 'show its state'}:  ${next.replace('ID', name)}`
}
