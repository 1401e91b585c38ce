/** An agent's session: its identity and continuity. It refers to decisions and grants no capability. */
import { z } from 'zod'
import { isolation, moment, referenceField, VERSION } from './record-fields.ts'

export const SESSION_STATUSES = [
  'starting',
  'running',
  'idle',
  'stopping',
  'stopped',
  'failed',
  'auth_expired',
  'provider_unavailable',
  'sandbox_failed',
] as const
export type SessionStatus = (typeof SESSION_STATUSES)[number]

/** Every allowed change of a session's status. */
export const SESSION_CHANGES: Readonly<Record<SessionStatus, readonly SessionStatus[]>> = {
  starting: ['idle', 'failed', 'stopped'],
  idle: ['running', 'stopped'],
  running: [
    'idle',
    'stopping',
    'stopped',
    'failed',
    'auth_expired',
    'provider_unavailable',
    'sandbox_failed',
  ],
  stopping: ['stopped'],
  stopped: ['idle'],
  failed: ['idle', 'stopped'],
  auth_expired: ['running', 'idle', 'stopped'],
  provider_unavailable: ['running', 'idle', 'stopped'],
  sandbox_failed: ['running', 'idle', 'stopped'],
}

/** A restart is only for sessions in none of these. */
export const ACTIVE_STATUSES: readonly SessionStatus[] = ['starting', 'running', 'idle', 'stopping']

/** The number of receipts that a session lists. The log has all of them. Those of the last prompt are always listed. */
export const MAX_SESSION_RECEIPTS = 500
export const MAX_SESSION_HANDOFFS = 100

const sessionSchema = z.strictObject({
  schema: z.literal('craik.agent_session'),
  version: z.literal(VERSION),
  id: referenceField,
  display_name: z.string().max(100),
  project_id: referenceField,
  operator_subject: referenceField,
  operator_issuer: referenceField,
  provider_id: referenceField,
  /** Null for the provider's default. */
  model_id: referenceField.nullable(),
  transport: z.enum(['live', 'fixture']),
  policy_envelope_id: referenceField,
  backend_id: referenceField,
  isolation,
  workspace: z.string().max(4096),
  mode: z.literal('interactive'),
  status: z.enum(SESSION_STATUSES),
  active_task_id: referenceField.nullable(),
  active_run_id: referenceField.nullable(),
  created_at: moment,
  updated_at: moment,
  /** The newest receipts, oldest first. */
  receipt_ids: z.array(referenceField),
  receipt_count: z.int().nonnegative(),
  handoff_ids: z.array(referenceField).max(MAX_SESSION_HANDOFFS),
  /** The last recovery: the run that it ended and the session's previous status. */
  recovery: z
    .strictObject({ at: moment, from_status: z.enum(SESSION_STATUSES), run_id: referenceField.nullable() })
    .nullable(),
  redacted: z.literal(true),
})

export type Session = z.infer<typeof sessionSchema>

export const parseSession = (document: string): Session => sessionSchema.parse(JSON.parse(document))

/** Returns the session with the receipts of a run, within its limit. */
export function withReceipts(session: Session, receiptIds: readonly string[], keep = 0): Session {
  const bound = Math.max(MAX_SESSION_RECEIPTS, keep)
  return {
    ...session,
    receipt_ids: [...session.receipt_ids, ...receiptIds].slice(-bound),
    receipt_count: session.receipt_count + receiptIds.length,
  }
}
