/** The names under which the writer thread keeps sessions and runs, with what goes in and out. */
import type { Owner } from '../../lib/owner.ts'
import type { ReceiptRef } from '../../receipts/receipt-writer.ts'
import { procedure } from '../../store/store.ts'
import type { Session, SessionStatus } from './agent-session.ts'
import type { Handoff } from './handoff.ts'
import type { CommandRun, Phase, Run, RunStatus } from './run-record.ts'

/** Not this operator's, or changed outside Craik. A denial receipt says so, and nothing was changed. */
export interface Refused {
  readonly outcome: 'refused'
  readonly rule: `${'session' | 'run' | 'handoff'}.${'operator' | 'seal'}`
  readonly reason: string
  readonly receipt: ReceiptRef
}

export type SessionAction = 'rename' | 'stop' | 'restart' | 'recover'

export interface ChangeSessionInput {
  readonly id: string
  readonly operator: string
  readonly action: SessionAction
  /** For `rename`. */
  readonly name?: string
  /** Redacted, kept with the event. */
  readonly reason?: string
}

export interface ChangedSession {
  readonly outcome: 'changed'
  readonly session: Session
  readonly seal: string
  readonly receipt: ReceiptRef
  /** The run that was ended with it, because its process is gone. */
  readonly ended?: EndedRun
  /** The process that was asked to stop its run. */
  readonly signal?: Owner
  /** The run that it was let go of: its record was changed outside Craik, and stays as it is. */
  readonly leftRunId?: string
}

export interface EndedRun {
  readonly outcome: 'ended'
  readonly run: Run
  readonly handoff: Handoff
  readonly session?: Session
}

export interface AdvanceRunInput {
  readonly runId: string
  readonly owner: Owner
  readonly phase: Phase
  readonly iteration?: number
  readonly tokensUsed?: number | null
  readonly providerResultCount?: number
  /** How a command came out. */
  readonly command?: CommandRun
}

export interface FinishRunInput {
  readonly runId: string
  readonly owner: Owner
  readonly status: Exclude<RunStatus, 'pending' | 'running'>
  readonly stopReason: string
  /** What becomes of the session; a session that is being stopped is stopped. */
  readonly sessionStatus: SessionStatus
}

/** Acts on a run from outside, for its operator. */
export interface RunRequest {
  readonly runId: string
  readonly operator: string
}

export const launchSession = procedure<
  { readonly session: Session },
  { readonly session: Session; readonly seal: string; readonly receipt: ReceiptRef }
>('agents.launch')
export const changeSession = procedure<ChangeSessionInput, ChangedSession | Refused>('agents.change')
/** The run, its session and the event in one transaction; the prompt's first call comes after. */
export const beginRun = procedure<
  { readonly run: Run },
  Refused | { readonly outcome: 'begun'; readonly run: Run }
>('agents.begin_run')
/** Durable before the phase is acted on. */
export const advanceRun = procedure<AdvanceRunInput, { readonly cancelRequestedBy: string | null }>(
  'agents.advance_run',
)
/** Run, handoff, session, event and receipt: one transaction. */
export const finishRun = procedure<FinishRunInput, EndedRun>('agents.finish_run')
export const cancelRun = procedure<
  RunRequest,
  Refused | EndedRun | { readonly outcome: 'requested'; readonly owner: Owner }
>('agents.cancel_run')
/** Ends a run whose process is gone. */
export const recoverRun = procedure<RunRequest, Refused | EndedRun>('agents.recover_run')
