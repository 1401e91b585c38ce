/** A run: one attempt at a task, with limits for turns, tokens and time. */
import { z } from 'zod'
import { isolation, moment, referenceField, VERSION } from './record-fields.ts'

const RUN_STATUSES = ['pending', 'running', 'completed', 'blocked', 'failed', 'interrupted'] as const
export type RunStatus = (typeof RUN_STATUSES)[number]

const PHASES = ['plan', 'act', 'observe', 'evaluate', 'continue', 'stop'] as const
export type Phase = (typeof PHASES)[number]

/** The allowed next phases of each phase. */
export const PHASE_CHANGES: Readonly<Record<Phase, readonly Phase[]>> = {
  plan: ['act', 'evaluate'],
  act: ['observe'],
  observe: ['act', 'evaluate'],
  evaluate: ['continue'],
  continue: ['plan'],
  stop: [],
}

/** A command that the run started, or whose start was denied. */
const commandRun = z.strictObject({
  command_ref: referenceField,
  capability: referenceField,
  status: z.enum(['passed', 'failed', 'denied', 'indeterminate']),
  exit_code: z.int().nullable(),
  isolation: isolation.nullable(),
  receipt_id: referenceField,
})
export type CommandRun = z.infer<typeof commandRun>

const runSchema = z.strictObject({
  schema: z.literal('craik.run'),
  version: z.literal(VERSION),
  id: referenceField,
  task_id: referenceField,
  session_id: referenceField.nullable(),
  /** The attempt at the same task that this one continues. */
  resumed_from: referenceField.nullable(),
  operator_subject: referenceField,
  provider_id: referenceField,
  model_id: referenceField.nullable(),
  policy_envelope_id: referenceField,
  backend_id: referenceField,
  isolation,
  runner_mode: z.enum(['fixture', 'live']),
  status: z.enum(RUN_STATUSES),
  phase: z.enum(PHASES),
  /** The number of model calls so far. */
  iteration: z.int().nonnegative(),
  max_iterations: z.int().positive(),
  token_budget: z.int().positive().nullable(),
  /** Null after a call that did not report its usage. */
  tokens_used: z.int().nonnegative().nullable(),
  wall_budget_ms: z.int().positive(),
  provider_result_count: z.int().nonnegative(),
  commands: z.array(commandRun),
  /** The first 16 hex digits of the prompt's SHA-256. The prompt itself is not stored. */
  prompt_hash: z.string().regex(/^[0-9a-f]{16}$/),
  stop_reason: referenceField.nullable(),
  cancel_requested_by: referenceField.nullable(),
  /** The process of the run: boot, pid, start time, pid namespace. */
  owner: z.strictObject({
    bootId: z.string(),
    pid: z.int(),
    startedAt: z.string(),
    pidNamespace: z.string(),
  }),
  receipt_ids: z.array(referenceField),
  handoff_id: referenceField,
  created_at: moment,
  ended_at: moment.nullable(),
})

export type Run = z.infer<typeof runSchema>

export const parseRun = (document: string): Run => runSchema.parse(JSON.parse(document))

export const isOver = (run: Run): boolean => run.status !== 'pending' && run.status !== 'running'
