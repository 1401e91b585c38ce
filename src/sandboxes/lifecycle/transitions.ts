/**
 * The states of a sandbox, and the transitions between them. Only the transitions in this table happen: all code that
 * begins, ends or recovers one uses it.
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
/**
 * `stopped`: nothing runs, and the disk is kept. `lost`: the same, but the sandbox ended by itself, or stopping it
 * failed.
 */
export type SandboxState = (typeof SANDBOX_STATES)[number]

interface StateFacts {
  /** Whether an instance may exist, which takes memory and processors of the host. */
  readonly usesCapacity: boolean
  /** Completes the sentence "sandbox parser is …". */
  readonly description: string
  /** The next command for the user, with ID where the name goes. */
  readonly next: string
}

const SEE = 'craik sandbox show ID'
const RESUME = 'craik sandbox resume ID'

export const STATES: Readonly<Record<SandboxState, StateFacts>> = {
  creating: { usesCapacity: true, description: 'still being created', next: SEE },
  running: { usesCapacity: true, description: 'running', next: SEE },
  pausing: { usesCapacity: true, description: 'being paused', next: SEE },
  paused: { usesCapacity: true, description: 'paused; resume it first', next: RESUME },
  stopping: { usesCapacity: true, description: 'being stopped', next: SEE },
  stopped: { usesCapacity: false, description: 'stopped; resume it first', next: RESUME },
  resuming: { usesCapacity: true, description: 'being resumed', next: SEE },
  snapshotting: { usesCapacity: true, description: 'being snapshotted', next: SEE },
  restoring: { usesCapacity: true, description: 'being restored', next: SEE },
  deleting: { usesCapacity: true, description: 'being deleted', next: SEE },
  lost: { usesCapacity: false, description: 'lost', next: RESUME },
}

/** The transitions of a sandbox as a whole. `resume` becomes `unpause` when the sandbox is paused. */
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

/** `before`: the state in which the transition began. `removed`: the record no longer exists. */
type Outcome = SandboxState | 'before' | 'removed'

interface Transition {
  /** The operation that policy evaluates. */
  readonly operation: OperationName
  readonly from: readonly SandboxState[]
  /** In these states there is nothing to do: the transition succeeds, and its receipts say so. */
  readonly already: readonly SandboxState[]
  readonly during: SandboxState
  readonly passed: Outcome
  /** The state after success when an instance was started. Only for transitions that may start one or not. */
  readonly started?: SandboxState
  /** Also the outcome when it is unknown how far the transition got. */
  readonly failed: Outcome
  /**
   * How the next process recovers the transition when the process that began it died. `finish` completes it and ends it
   * as passed. `undo` restores the earlier state and ends it as indeterminate, with the outcome in `failed`.
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

/** The transition that happens without a request: the last process of the sandbox ended. */
export const LOSS = { from: ['running', 'paused'], to: 'lost' } as const satisfies {
  readonly from: readonly SandboxState[]
  readonly to: SandboxState
}

/** The only state in which the host can reach anything in the sandbox. */
export const OPERABLE: SandboxState = 'running'

/** Returns the transition in progress for a state. `from` distinguishes `resume` from `unpause`. */
export function verbInProgress(state: SandboxState, from: SandboxState | null): Verb | undefined {
  const found = VERBS.filter((verb) => TRANSITIONS[verb].during === state)
  return found.find((verb) => from !== null && TRANSITIONS[verb].from.includes(from)) ?? found[0]
}

/** Returns the state after a transition. `from` is null if a Craik version began it that did not record the state. */
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

/** Resuming a paused sandbox only unpauses it. */
export function verbFor(verb: Verb, state: SandboxState): Verb {
  return verb === 'resume' && TRANSITIONS.unpause.from.includes(state) ? 'unpause' : verb
}

/** Returns the error for a sandbox that exists, but in which nothing can be reached now. */
export function notRunning(sandbox: {
  readonly id: string
  readonly name: string
  readonly state: SandboxState
  readonly notice: string | null
}): CraikError {
  const { description: message, next } = STATES[sandbox.state]
  const why = sandbox.state === 'lost' && sandbox.notice !== null ? `: ${sandbox.notice}` : ''
  return new CraikError('sandbox_stopped', `sandbox ${sandbox.name} is ${message}${why}`, {
    hint: hintOf(next, sandbox),
    details: { state: sandbox.state },
  })
}

/** Returns the error for a transition that the state does not allow, or that another transition blocks. */
export function notPossible(
  verb: Verb,
  sandbox: { readonly id: string; readonly name: string; readonly state: SandboxState },
): CraikError {
  const { description: message, next } = STATES[sandbox.state]
  return new CraikError('conflict', `cannot ${verb} sandbox ${sandbox.name}: it is ${message}`, {
    hint: hintOf(next, sandbox),
    details: { state: sandbox.state },
  })
}

function hintOf(next: string, { name }: { readonly name: string }): string {
  return `${next === RESUME ? 'resume it' : 'show its state'}:  ${next.replace('ID', name)}`
}
