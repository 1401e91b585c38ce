/**
 * The names under which the writer thread decides about sandboxes and keeps them. Each is one transaction: what was
 * looked up, the decision, the receipt and the record change together or not at all.
 *
 * An epoch is the time for which one process holds the boundary of a sandbox, however often the sidecar redials in it:
 * its counts are the sums over those connections. Each counted call of the boundary has one begin (or one
 * `restartJob`) of the same epoch, which is written before.
 */
import type { Json } from '../../lib/canonical-json.ts'
import type { JobId, ReceiptId, SandboxId } from '../../lib/ids.ts'
import type { Owner } from '../../lib/owner.ts'
import type { DecisionRequest } from '../../policy/decision-request.ts'
import type { Evaluation } from '../../policy/evaluate.ts'
import type { PolicyProfile } from '../../policy/profiles.ts'
import type { ReceiptRef } from '../../receipts/receipt-writer.ts'
import type { Measure, ReceiptStatus } from '../../receipts/schema.ts'
import { procedure } from '../../store/store.ts'
import type {
  BackendName,
  ContainerSpec,
  CredentialMode,
  HostUser,
  Isolation,
  LimitSpec,
  MountSpec,
  VolumeSpec,
  WorkspaceSpec,
} from '../backend.ts'
import type { BoundaryCounts } from '../boundary/boundary.ts'
import type { OperationName } from '../operations.ts'
import type { AdmissionLimits } from './admission.ts'
import type { ExplicitFields } from './explicit-fields.ts'
import type { RecordedBegin, RecordedInstance, SandboxRecord } from './sandbox-record.ts'
import type { Verb } from './transitions.ts'

/** Policy, or whose a job is, said no. A denial receipt is written, and nothing may be done. */
export interface Denied {
  readonly effect: 'denied'
  readonly ref: ReceiptRef
  /** What was asked of policy; `deniedOperation` makes the error of it. */
  readonly asked: DecisionRequest
  readonly evaluation: Pick<Evaluation, 'rule' | 'missing' | 'grantOutcome' | 'grantWouldHelp'>
  readonly profile?: PolicyProfile
  /** What of the request it is about, when the request alone was enough to say no. */
  readonly fields?: readonly string[]
}

/** A begin that is on disk: the effect may start, and has to end it. */
export interface Begun {
  readonly id: ReceiptId
  readonly begin: RecordedBegin
  readonly epoch: string | null
}

export interface BeginCreateInput {
  readonly id: SandboxId
  /** Without one it is given one. Unique among those that are not deleted. */
  readonly name?: string
  readonly operator: string
  readonly grantId?: string
  /** Without one, the envelope of the operator's sandboxes: profile `automation`. */
  readonly policyEnvelopeId?: string
  readonly backend: BackendName
  readonly isolation: Isolation
  readonly workspace: WorkspaceSpec
  readonly mounts?: readonly MountSpec[]
  readonly volumes?: readonly VolumeSpec[]
  /** What the request said itself; without it, nothing. */
  readonly stated?: ExplicitFields
  /** The sandbox whose mounts it keeps. */
  readonly forkOf?: SandboxId
  readonly limits: LimitSpec
  readonly environment: Readonly<Record<string, string>>
  /** Ids; without it, none. */
  readonly harnesses?: readonly string[]
  /** Without it, `none`. */
  readonly credentials?: CredentialMode
  /** `allocate`: a user that no other sandbox of this home has. */
  readonly hostUser: HostUser | 'allocate' | undefined
  readonly container?: ContainerSpec | undefined
  /** The id of the snapshot that its disk is made from. */
  readonly snapshot?: string
  /** A place that waits for a sandbox, and that this process holds: the sandbox has its id, and runs at once. */
  readonly adopt?: { readonly id: SandboxId; readonly epoch: string; readonly beganAtMs: number }
  /** Without it, never. */
  readonly ends?: SandboxRecord['ends']
  /** What all sandboxes may have together; without it, as much as there may be at all. */
  readonly admission?: AdmissionLimits
  readonly owner: Owner
}

export type BeginCreateOutput =
  | Denied
  | { readonly effect: 'allowed'; readonly record: SandboxRecord; readonly begun: Begun }
  /** It runs: begin and end are on record. */
  | { readonly effect: 'adopted'; readonly record: SandboxRecord }
  /** It is being created in the place that was offered, which is to be shown its folders first. */
  | { readonly effect: 'taken'; readonly record: SandboxRecord }
  /** The place that was offered is not there any more: nothing was decided or written. */
  | { readonly effect: 'gone' }

export type EndCreateInput = { readonly id: SandboxId } & (
  | {
      readonly status: 'passed'
      readonly place: RecordedInstance
      readonly measures?: Measure[]
      /** It waited for the sandbox. */
      readonly warm?: boolean
    }
  /** The record is removed: call it when nothing of the place is left. */
  | { readonly status: 'failed' | 'indeterminate' }
)

export interface EndCreateOutput {
  /** Undefined when it is removed. */
  readonly record: SandboxRecord | undefined
  readonly receipt: ReceiptRef
}

export interface BeginOperationInput {
  readonly id: SandboxId
  readonly operation: Exclude<
    OperationName,
    'create' | 'stop' | 'pause' | 'resume' | 'snapshot' | 'restore' | 'delete'
  >
  readonly operator: string
  readonly grantId?: string
  readonly epoch: string
  /** For jobs. */
  readonly job?: JobInput
  /** Values that the receipt pins without showing them, such as a path: each becomes the digest `<name>_hmac`. */
  readonly pinned?: Readonly<Record<string, Json>>
  /** Integers, booleans and references. */
  readonly metadata?: Readonly<Record<string, Json>>
  readonly owner: Owner
}

export interface JobInput {
  readonly id: JobId
  /** The whole spec as plain JSON; kept only as a keyed digest, so that a retry is known from another request. */
  readonly spec: Json
  /** Of `exec` and `terminal`: pinned as `argv_hmac`. Empty when `commandRef` is given. */
  readonly argv?: readonly string[]
  /** A registered command, looked up in the same transaction. */
  readonly commandRef?: string
  /** Kept, so that whoever takes the job over knows it. */
  readonly endsWhenLeftMs?: number
}

export type BeginOperationOutput =
  | Denied
  | {
      readonly effect: 'allowed'
      readonly begun: Begun
      /** What a command reference stood for; only with `commandRef`. */
      readonly argv?: readonly string[]
      /**
       * The job of this id was begun before, by the same operator with the same spec: it is not begun again. What the
       * sandbox does not know although it is `open` was never started: `restartJob`, then start it.
       */
      readonly known?: { readonly state: 'open' | 'ended' }
    }

export interface EndOperationInput {
  readonly id: SandboxId
  readonly begun: Begun
  readonly jobId?: JobId
  readonly status: Exclude<ReceiptStatus, 'denied'>
  /** `bytes_in` and `bytes_out`, observed, are held against the boundary's counts. */
  readonly measures?: Measure[]
  readonly metadata?: Readonly<Record<string, Json>>
}

/** Undefined when the job was ended before: a job ends once. */
export type EndOperationOutput = ReceiptRef | undefined

/** What is done to a sandbox as a whole; `transitions.ts` says when it may be, and where it leads. */
export interface BeginTransitionInput {
  readonly id: SandboxId
  readonly verb: Exclude<Verb, 'create' | 'unpause'>
  readonly operator: string
  readonly grantId?: string
  readonly owner: Owner
  /** Integers, booleans and references, for the begin's receipt. */
  readonly metadata?: Readonly<Record<string, Json>>
  readonly links?: Readonly<Record<string, string>>
  /** What a dead process, or this one before, was at in the middle ends as indeterminate, and this is begun instead. */
  readonly takeOver?: boolean
  /** A `conflict` when a job is open. */
  readonly unlessBusy?: boolean
  /** For what starts a place again. */
  readonly admission?: AdmissionLimits
}

export type BeginTransitionOutput =
  | Denied
  /** Nothing is to be done; begin and end are on record. */
  | { readonly effect: 'already'; readonly record: SandboxRecord }
  | {
      readonly effect: 'allowed'
      /** `unpause` when a paused one was to be resumed. */
      readonly verb: Verb
      readonly record: SandboxRecord
      readonly begun: Begun
    }

export interface EndTransitionInput {
  readonly id: SandboxId
  readonly status: 'passed' | 'failed' | 'indeterminate'
  /** Of a place that was started. */
  readonly place?: RecordedInstance
  readonly notice?: string
  readonly measures?: Measure[]
  readonly metadata?: Readonly<Record<string, Json>>
}

export interface EndTransitionOutput {
  readonly record: SandboxRecord
  readonly receipt: ReceiptRef
}

export type BeginDeleteInput = Omit<BeginTransitionInput, 'verb' | 'admission'>

export type BeginDeleteOutput =
  | Denied
  | { readonly effect: 'allowed'; readonly record: SandboxRecord; readonly begun: Begun }

export type BeginDeleteDamagedOutput = Denied | { readonly effect: 'allowed'; readonly begun: Begun }

export interface EndDeleteDamagedInput {
  readonly id: SandboxId
  readonly begun: Begun
  readonly status: 'passed' | 'failed'
}

export interface ChangeSandboxInput {
  readonly id: SandboxId
  /** It leaves a receipt, and ends what is open. */
  readonly state?: 'lost'
  readonly place?: RecordedInstance
  readonly epoch?: string
  readonly notice?: string | null
  /** Never goes back. */
  readonly activeAtMs?: number
}

/** About a stream that stays open under the decision that began it. */
export interface RecheckInput {
  readonly id: SandboxId
  readonly begin: RecordedBegin
  readonly jobId?: JobId | undefined
  readonly action: string
}

export interface OpenJob {
  readonly jobId: JobId
  readonly operation: OperationName
  readonly operator: string
  readonly begun: Begun
  readonly owner: Owner
  readonly endsWhenLeftMs?: number
}

/** `host:port`, or `unparsable`, and how many connections asked for it. The inside chose the name. */
export interface Destination {
  readonly destination: string
  readonly count: number
}

/** What may be asked for ahead of doing it. */
export type CheckOperationInput = Pick<
  BeginOperationInput,
  'id' | 'operation' | 'operator' | 'grantId' | 'epoch' | 'metadata' | 'owner'
>

export interface CloseOrphansInput {
  readonly id: SandboxId
  /** What the sandbox, asked, still has: left open. */
  readonly keep: readonly JobId[]
  readonly owner: Owner
  /** Living processes that work in another home, of which this one is a copy: here they hold nothing. */
  readonly elsewhere?: readonly Owner[]
}

export const beginCreate = procedure<BeginCreateInput, BeginCreateOutput>('sandboxes.begin_create')
/** Running: the record gets its place, and the operator their grants. */
export const endCreate = procedure<EndCreateInput, EndCreateOutput>('sandboxes.end_create')
export const beginOperation = procedure<BeginOperationInput, BeginOperationOutput>(
  'sandboxes.begin_operation',
)
/**
 * Whether it would be allowed now; undefined when it would. That spends and writes nothing, and allows nothing: each
 * time that it is done it is begun. Denied: the denial is written and handed back.
 */
export const checkOperation = procedure<CheckOperationInput, Denied | undefined>('sandboxes.check_operation')
export const endOperation = procedure<EndOperationInput, EndOperationOutput>('sandboxes.end_operation')
/** A job that was begun in an earlier epoch and never reached the sandbox is sent in this one: accounted for there. */
export const restartJob = procedure<
  { readonly id: SandboxId; readonly jobId: JobId; readonly epoch: string; readonly owner: Owner },
  ReceiptRef
>('sandboxes.restart_job')
/**
 * Somebody else's job, or one that no grant carries any more: the denial is written and handed back. Undefined when it
 * may go on.
 */
export const requireJobOwner = procedure<
  {
    readonly id: SandboxId
    readonly jobId: JobId
    readonly operator: string
    /** What was to be done with it, such as `output`. */
    readonly action: string
  },
  Denied | undefined
>('sandboxes.require_job_owner')
/** Whether what was begun may go on; undefined when it may. */
export const recheck = procedure<RecheckInput, Denied | undefined>('sandboxes.recheck')
export const beginTransition = procedure<BeginTransitionInput, BeginTransitionOutput>(
  'sandboxes.begin_transition',
)
/** Of all but create and delete, which end in ways of their own. Jobs end with the place that they ran in. */
export const endTransition = procedure<EndTransitionInput, EndTransitionOutput>('sandboxes.end_transition')
export const beginDelete = procedure<BeginDeleteInput, BeginDeleteOutput>('sandboxes.begin_delete')
/** Of one whose record was changed outside Craik: `tampered` is what `beginDelete` says of it. */
export const beginDeleteDamaged = procedure<BeginDeleteInput, BeginDeleteDamagedOutput>(
  'sandboxes.begin_delete_damaged',
)
export const endDeleteDamaged = procedure<EndDeleteDamagedInput, ReceiptRef>('sandboxes.end_delete_damaged')
/**
 * Passed: jobs that are still open end as indeterminate, the owner's grants are revoked, the record is removed. Close
 * the epoch before. Otherwise the sandbox is `lost`, and can be deleted again.
 */
export const endDelete = procedure<
  {
    readonly id: SandboxId
    readonly status: 'passed' | 'failed' | 'indeterminate'
    readonly notice?: string
  },
  ReceiptRef
>('sandboxes.end_delete')
export const changeSandbox = procedure<ChangeSandboxInput, SandboxRecord>('sandboxes.change')
/** A new process takes over a sandbox whose process is dead, with the open jobs that the sandbox still has. */
export const adoptJobs = procedure<
  { readonly id: SandboxId; readonly jobIds: readonly JobId[]; readonly owner: Owner },
  readonly OpenJob[]
>('sandboxes.adopt_jobs')
/** Ends, as indeterminate, the open jobs of a dead owner that the sandbox does not have (any more). */
export const closeOrphans = procedure<CloseOrphansInput, readonly JobId[]>('sandboxes.close_orphans')
/** Of the jobs that ended, only the newest are kept. An id as old as one that is not begins no other. */
export const forgetJobs = procedure<{ readonly id: SandboxId }, void>('sandboxes.forget_jobs')
/** Makes a row of the epoch with its first call. Counts never go back. */
export const saveCounts = procedure<
  { readonly id: SandboxId; readonly epoch: string; readonly counts: BoundaryCounts },
  void
>('sandboxes.save_counts')
/**
 * The receipt of what the boundary counted. `counts` absent: the last that were saved, and the receipt says that they
 * may not be all. Undefined when it was closed before, or nothing was ever saved.
 */
export const closeEpoch = procedure<
  { readonly id: SandboxId; readonly epoch: string; readonly counts?: BoundaryCounts },
  ReceiptRef | undefined
>('sandboxes.close_epoch')
/** Epochs of the sandbox that nobody closed, other than `except`: closed with what was saved. */
export const closeLeftEpochs = procedure<
  { readonly id: SandboxId; readonly except?: string },
  readonly string[]
>('sandboxes.close_left_epochs')
/** Connections from inside that the host refused: one decision, for as many as `count` says. */
export const refuseInbound = procedure<
  {
    readonly id: SandboxId
    readonly epoch: string
    readonly count: number
    /** Where to, as far as it could be read: few, and references. */
    readonly destinations?: readonly Destination[]
    readonly owner: Owner
  },
  ReceiptRef
>('sandboxes.refuse_inbound')

/** Connections from inside for which there was no room: one receipt, for as many as `count` says. */
export const refuseSurplus = procedure<
  { readonly id: SandboxId; readonly epoch: string; readonly count: number },
  ReceiptRef
>('sandboxes.refuse_surplus')

/** Connections from inside that the gateway took: what became of each is in its own receipts. */
export const noteInbound = procedure<
  { readonly id: SandboxId; readonly epoch: string; readonly count: number },
  ReceiptRef
>('sandboxes.note_inbound')
