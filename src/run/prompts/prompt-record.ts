/** One prompt to an agent in a sandbox: its operator, its sandbox, the agent's own session and the result. */
import { z } from 'zod'
import { HARNESS_NAMES } from '../../harnesses/harness.ts'
import { REFERENCE } from '../../lib/ids.ts'

const reference = z.string().regex(REFERENCE)
const moment = z.iso.datetime()

const STATUSES = ['running', 'completed', 'cancelled', 'failed'] as const

const promptRun = z.strictObject({
  schema: z.literal('craik.prompt_run'),
  version: z.literal('0.1.0'),
  id: reference,
  operator_subject: reference,
  harness: z.enum(HARNESS_NAMES),
  sandbox_id: reference,
  /** True when the sandbox was created for this prompt. */
  made_sandbox: z.boolean(),
  /** The host folder that the prompt is about. Null when the sandbox has its own. */
  workspace: z.string().max(4096).nullable(),
  workspace_mode: z.enum(['copy', 'in-place']),
  /** The agent's own id of the session, so that it can be resumed. */
  agent_session: z.string().max(200).nullable(),
  resumed_from: reference.nullable(),
  /** The first 16 hex digits of the prompt's SHA-256. The prompt itself is not stored. */
  prompt_hash: z.string().regex(/^[0-9a-f]{16}$/),
  status: z.enum(STATUSES),
  /** The protocol's stop reason, or the code of the error. */
  stop_reason: reference.nullable(),
  /** The number of changed files. Null when it was not checked. */
  changed_files: z.int().nonnegative().nullable(),
  owner: z.strictObject({
    bootId: z.string(),
    pid: z.int(),
    startedAt: z.string(),
    pidNamespace: z.string(),
  }),
  created_at: moment,
  ended_at: moment.nullable(),
})

export type PromptRun = z.infer<typeof promptRun>

export const parsePromptRun = (document: string): PromptRun => promptRun.parse(JSON.parse(document))
