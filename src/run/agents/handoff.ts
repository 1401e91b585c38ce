/** The report of a run. It contains only what the receipts show. */
import { z } from 'zod'
import type { Receipt } from '../../receipts/schema.ts'
import { findRanAfterDenial } from './denied-requests.ts'
import { isolation, moment, referenceField, VERSION } from './record-fields.ts'
import type { Run, RunStatus } from './run-record.ts'

const HANDOFF_STATUSES = ['completed', 'incomplete', 'blocked', 'failed'] as const

const command = z.strictObject({
  command_ref: referenceField,
  capability: referenceField,
  status: z.enum(['passed', 'failed', 'indeterminate']),
  exit_code: z.int().nullable(),
  isolation_asked: isolation,
  /** The actual isolation. Null when nothing ran, or when a kill left it unknown. */
  isolation: isolation.nullable(),
  receipt_ids: z.array(referenceField),
})

const handoffSchema = z.strictObject({
  schema: z.literal('craik.handoff'),
  version: z.literal(VERSION),
  id: referenceField,
  run_id: referenceField,
  task_id: referenceField,
  session_id: referenceField.nullable(),
  operator_subject: referenceField,
  provider_id: referenceField,
  /** Every provider that answered. After a failover that is not only the requested one. */
  answered_by: z.array(referenceField),
  policy_envelope_id: referenceField,
  backend_id: referenceField,
  execution_mode: z.enum(['fixture', 'live']),
  status: z.enum(HANDOFF_STATUSES),
  summary: z.string().max(500),
  completed_actions: z.array(
    z.strictObject({ capability: referenceField, target: referenceField, receipt_id: referenceField }),
  ),
  denied_actions: z.array(
    z.strictObject({
      capability: referenceField,
      target: referenceField,
      rule: referenceField,
      receipt_id: referenceField,
    }),
  ),
  commands_run: z.array(command),
  tests_run: z.array(command),
  assumptions: z.array(z.string().max(300)),
  context_debt: z.array(z.string().max(300)),
  risks: z.array(z.string().max(300)),
  next_steps: z.array(z.string().max(300)),
  self_audit: z.strictObject({
    every_action_has_a_receipt: z.boolean(),
    every_receipt_has_ended: z.boolean(),
    every_command_was_permitted: z.boolean(),
    no_denied_action_ran: z.boolean(),
    claims_match_receipts: z.boolean(),
    stayed_within_limits: z.boolean(),
  }),
  receipt_ids: z.array(referenceField),
  created_at: moment,
})

export type Handoff = z.infer<typeof handoffSchema>

export const parseHandoff = (document: string): Handoff => handoffSchema.parse(JSON.parse(document))

const STATUS_OF: Readonly<Record<RunStatus, Handoff['status']>> = {
  pending: 'incomplete',
  running: 'incomplete',
  completed: 'completed',
  blocked: 'blocked',
  failed: 'failed',
  interrupted: 'incomplete',
}

type Body = Receipt['body']

/** `bodies` is every receipt of the run, oldest first. */
export function buildHandoff(run: Run, bodies: readonly Body[], nowMs: number): Handoff {
  const commands = commandsIn(run, bodies)
  // A denied action of somebody else on the run itself is not an action of the run.
  const denied = bodies.filter(
    ({ kind, capability }) => kind === 'denial' && !capability.startsWith('agent.'),
  )
  const answers = bodies.filter(isAnswer)
  return {
    schema: 'craik.handoff',
    version: VERSION,
    id: run.handoff_id,
    run_id: run.id,
    task_id: run.task_id,
    session_id: run.session_id,
    operator_subject: run.operator_subject,
    provider_id: run.provider_id,
    answered_by: [...new Set(answers.flatMap(({ links }) => links.provider_id ?? []))],
    policy_envelope_id: run.policy_envelope_id,
    backend_id: run.backend_id,
    execution_mode: run.runner_mode,
    status: STATUS_OF[run.status],
    summary: summarise(run, answers.length, commands, denied.length),
    completed_actions: bodies
      .filter((body) => isAnswer(body) || (body.kind === 'sandbox_action' && body.status === 'passed'))
      .map(({ capability, target, id }) => ({ capability, target: target ?? '-', receipt_id: id })),
    denied_actions: denied.map(({ capability, target, decision, id }) => ({
      capability,
      target: target ?? '-',
      rule: decision?.rule ?? 'none',
      receipt_id: id,
    })),
    commands_run: commands,
    tests_run: commands.filter(({ capability }) => capability === 'shell.test'),
    assumptions: [],
    context_debt: debtsOf(run),
    risks: risksOf(run, commands),
    next_steps: nextStepsOf(run),
    self_audit: auditSelf(run, bodies, commands),
    receipt_ids: bodies.map(({ id }) => id),
    created_at: new Date(nowMs).toISOString(),
  }
}

const isAnswer = (body: Body): boolean =>
  body.kind === 'provider_action' && body.phase === 'end' && body.status === 'passed'

/**
 * Returns the commands from the receipts. The exit code comes from the run's own record, or else from the measure of
 * the receipt.
 */
function commandsIn(run: Run, bodies: readonly Body[]): Handoff['commands_run'] {
  const ends = new Map(
    bodies.flatMap((body) => (body.phase === 'end' ? [[body.begin_id, body] as const] : [])),
  )
  return bodies
    .filter(({ kind, phase }) => kind === 'sandbox_action' && phase === 'begin')
    .map((begin) => {
      const end = ends.get(begin.id)
      const note = run.commands.find(({ receipt_id }) => receipt_id === end?.id)
      const status = end?.status === 'passed' || end?.status === 'failed' ? end.status : 'indeterminate'
      const requested = isolation.safeParse(begin.isolation)
      const reached = isolation.safeParse(end?.isolation)
      return {
        command_ref: begin.links.command_ref ?? 'unknown',
        capability: begin.capability,
        status,
        exit_code: note?.exit_code ?? end?.measures?.find(({ name }) => name === 'exit_code')?.value ?? null,
        isolation_asked: requested.success ? requested.data : run.isolation,
        isolation: reached.success ? reached.data : null,
        receipt_ids: end === undefined ? [begin.id] : [begin.id, end.id],
      }
    })
}

function summarise(run: Run, answers: number, commands: Handoff['commands_run'], denials: number): string {
  const count = (status: string) => commands.filter((one) => one.status === status).length
  const parts = [
    `${answers} ${run.runner_mode === 'fixture' ? 'fixture answer' : 'model answer'}${answers === 1 ? '' : 's'}`,
    `${count('passed')} of ${commands.length} command${commands.length === 1 ? '' : 's'} passed`,
    ...(denials > 0 ? [`${denials} action${denials === 1 ? '' : 's'} denied`] : []),
  ]
  return `${run.status}${run.stop_reason === null ? '' : ` (${run.stop_reason})`}: ${parts.join(', ')}`
}

function debtsOf(run: Run): string[] {
  if (run.status === 'completed') return []
  return ['the conversation with the model is not kept: a new attempt begins it again']
}

function risksOf(run: Run, commands: Handoff['commands_run']): string[] {
  return [
    ...(run.runner_mode === 'fixture' ? ['the answers are fixture text: no model was asked'] : []),
    ...(commands.some((one) => one.isolation === 'none')
      ? ['a command ran on the host itself, without isolation']
      : []),
    ...(commands.some(({ status }) => status === 'indeterminate')
      ? ['a command began, and how it ended is not known']
      : []),
    ...(commands.some((one) => one.status === 'indeterminate' && one.isolation_asked === 'none')
      ? ['a command was started without isolation and may still run: Craik cannot end it any more']
      : []),
    ...(commands.some(({ status }) => status === 'failed') ? ['a command failed'] : []),
  ]
}

function nextStepsOf(run: Run): string[] {
  const receipts = `craik receipts list --run ${run.id}`
  if (run.status === 'interrupted') return [`craik run resume ${run.id} "<the same task>"`, receipts]
  return [receipts]
}

function auditSelf(
  run: Run,
  bodies: readonly Body[],
  commands: Handoff['commands_run'],
): Handoff['self_audit'] {
  const byId = new Map(bodies.map((body) => [body.id as string, body]))
  const ended = new Set(bodies.map(({ begin_id }) => begin_id))
  const begins = bodies.filter(({ kind, phase }) => kind === 'sandbox_action' && phase === 'begin')
  return {
    every_action_has_a_receipt:
      run.commands.every(({ receipt_id }) => byId.has(receipt_id)) &&
      run.provider_result_count <= bodies.filter(isAnswer).length,
    every_receipt_has_ended: bodies.every(({ phase, id }) => phase !== 'begin' || ended.has(id)),
    every_command_was_permitted: begins.every(
      ({ links }) => links.grant_outcome === 'usable' || links.grant_outcome === 'not_required',
    ),
    no_denied_action_ran: findRanAfterDenial(bodies).length === 0,
    claims_match_receipts:
      run.commands.every((claim) => {
        const status = byId.get(claim.receipt_id)?.status
        return status === claim.status
      }) && commands.length >= run.commands.filter(({ status }) => status !== 'denied').length,
    stayed_within_limits:
      run.iteration <= run.max_iterations &&
      (run.token_budget === null || (run.tokens_used ?? Number.POSITIVE_INFINITY) <= run.token_budget),
  }
}
