/**
 * Makes sandbox decisions in the writer thread. One transaction reads every reference and then evaluates the policy.
 */
import { hash } from 'node:crypto'
import { CraikError } from '../errors.ts'
import { canonicalJson, type Json } from '../lib/canonical-json.ts'
import type { Clock } from '../lib/clock.ts'
import { REFERENCE } from '../lib/ids.ts'
import type { DecisionRequest } from '../policy/decision-request.ts'
import { findGrant } from '../policy/find-grant.ts'
import { decideIn } from '../policy/policy-procedures.ts'
import type { ReceiptWriter } from '../receipts/receipt-writer.ts'
import { redactText, redactValue } from '../receipts/redaction/redact.ts'
import type { ReceiptDraft } from '../receipts/schema.ts'
import type { Procedures, Tables } from '../store/store.ts'
import { findBackend } from './backend-records.ts'
import {
  evaluateSandboxRequest,
  receiptTarget,
  type SandboxFacts,
  type SandboxRefusal,
} from './evaluate-sandbox-request.ts'
import { FIXTURE_ACTION } from './fixture-action.ts'
import { redactResultMetadata, type SandboxRequest } from './sandbox-request.ts'
import {
  ensureFixtureActionProcedure,
  type SandboxDecideInput,
  type SandboxDecideOutput,
  sandboxDecideProcedure,
} from './tokens.ts'

/** The longest registered reference. It leaves room for the prefix that receipts add. */
const MAX_REF_LENGTH = 128

export function sandboxProcedures(receipts: ReceiptWriter, clock: Clock): Procedures {
  return {
    [sandboxDecideProcedure.name]: (tables: Tables, input: SandboxDecideInput) =>
      decideSandbox(tables, input, receipts, clock),
    [ensureFixtureActionProcedure.name]: (tables: Tables, input: { readonly operator: string }) =>
      ensureFixtureAction(tables, input.operator, receipts, clock),
  }
}

async function decideSandbox(
  tables: Tables,
  input: SandboxDecideInput,
  receipts: ReceiptWriter,
  clock: Clock,
): Promise<SandboxDecideOutput> {
  const { request } = input
  const serialized = 'command_ref' in request ? request.command_ref : request.action_ref
  const ref = commandReference(serialized)
  // A tool defines its own browser actions. Everything else is a registered argv.
  const argv =
    ref === undefined || request.kind === 'browser_tool' ? undefined : (await tables.commands.get(ref))?.argv
  const facts = await readFacts(tables, input, ref, argv !== undefined || request.kind === 'browser_tool')
  const draft = draftOf(input, facts)
  const refusal = evaluateSandboxRequest(facts)
  if (refusal !== undefined) {
    return { effect: 'refused', refusal, ref: await receipts.append(tables, denialOf(draft, facts, refusal)) }
  }

  const requested = policyRequest(request, ref!)
  const target = receiptTarget(facts)
  // The input of the policy becomes part of the facts, so that one receipt contains everything that the decision
  // depends on.
  const whole = (provided: ReceiptDraft): ReceiptDraft =>
    provided.decision === undefined
      ? provided
      : { ...provided, target, decision: wholeDecision(provided.decision, facts) }
  const output = await decideIn(
    tables,
    {
      request: requested,
      owner: input.owner,
      receipt: { ...draft, ...(argv && { digests: { argv: digestOf(argv) } }) },
    },
    { append: (inside, provided) => receipts.append(inside, whole(provided)) },
    clock,
  )
  const { evaluation, begin, profile } = output
  if (begin === undefined) {
    return { effect: 'denied', evaluation, asked: requested, ref: output.ref, ...(profile && { profile }) }
  }
  return {
    effect: 'allowed',
    evaluation,
    ref: output.ref,
    begin: { ...begin, target },
    ...(argv && { argv }),
  }
}

/** A command is exactly one reference. References contain no blanks, operators, variables, quotes or globs. */
function commandReference(serialized: string): string | undefined {
  if (serialized.length > MAX_REF_LENGTH || !REFERENCE.test(serialized)) return undefined
  return redactText(serialized).labels.length === 0 ? serialized : undefined
}

async function readFacts(
  tables: Tables,
  { request, reachable }: SandboxDecideInput,
  ref: string | undefined,
  registered: boolean,
): Promise<SandboxFacts> {
  const { backend_id, capability, operation, operator, scope } = request
  const { policy_envelope_id, capability_grant_id, receipt_id } = request
  const backend = findBackend(backend_id)
  const envelope = policy_envelope_id && (await tables.envelopes.get(policy_envelope_id))
  const grant = await findGrant(tables, capability_grant_id)
  const receipt = receipt_id && (await tables.receipts.get(receipt_id))
  return {
    schema: 'craik.sandbox_decision/1',
    request: {
      backend_id,
      capability,
      operation,
      operator,
      scope,
      ...(policy_envelope_id && { policy_envelope_id }),
      ...(capability_grant_id && { capability_grant_id }),
      ...(receipt_id && { receipt_id }),
    },
    specifics: specificsOf(request, reachable),
    action: ref === undefined ? { form: 'inline' } : { form: 'reference', ref, registered },
    found: {
      backend: backend
        ? {
            kind: backend.kind,
            capabilities: backend.capabilities.map(({ name, operations }) => ({ name, operations })),
          }
        : null,
      envelope: Boolean(envelope),
      grant: grant?.found ?? 'nothing',
      receipt: Boolean(receipt),
    },
    policy: null,
  }
}

function specificsOf(
  request: SandboxRequest,
  reachable: SandboxDecideInput['reachable'],
): SandboxFacts['specifics'] {
  switch (request.kind) {
    case 'local_process':
      return { kind: request.kind, isolation: request.isolation, reachable }
    case 'remote_shell': {
      const { target } = request
      if (target === undefined) return { kind: request.kind, target: null }
      const complete = [target.host_ref, target.user_ref, target.port_ref].every((part) => part !== undefined)
      return {
        kind: request.kind,
        target: { id: target.id, complete, login: target.auth_ref_name !== undefined },
      }
    }
    case 'container': {
      const { kind, network_mode, privileged, mounts } = request
      const writable_mounts = mounts.filter(({ mode }) => mode === 'read_write').length
      return { kind, network_mode, privileged, writable_mounts }
    }
    case 'browser_tool':
      return { kind: request.kind }
  }
}

/** A grant is for a command. On a remote host, it is for a command on that host. */
function policyRequest(request: SandboxRequest, ref: string): DecisionRequest {
  const { operator, capability, operation, scope, policy_envelope_id, capability_grant_id } = request
  const remote = request.kind === 'remote_shell' ? request.target : undefined
  return {
    operator,
    capability,
    operation,
    target: remote === undefined ? ref : `${remote.id}/${ref}`,
    scope,
    policy_envelope_id,
    grant_id: capability_grant_id,
    ...(remote?.auth_ref_name && { credential_ref: remote.auth_ref_name }),
  }
}

type Draft = Omit<ReceiptDraft, 'phase' | 'status' | 'begin_id' | 'owner'>

function draftOf({ request, links }: SandboxDecideInput, facts: SandboxFacts): Draft {
  const { operator, capability, operation, backend_id, scope, receipt_id } = request
  const { action, specifics } = facts
  return {
    kind: 'sandbox_action',
    operator,
    capability,
    operation,
    target: receiptTarget(facts),
    links: {
      ...links,
      ...scope,
      backend_id,
      ...(action.form === 'reference' && request.kind !== 'browser_tool' && { command_ref: action.ref }),
      ...(receipt_id && { receipt_ids: [...new Set([receipt_id, ...(links.receipt_ids ?? [])])] }),
      ...(specifics.kind === 'remote_shell' && specifics.target && { target_id: specifics.target.id }),
    },
    isolation: request.kind === 'local_process' ? request.isolation : findBackend(backend_id)?.isolation_mode,
    metadata: metadataOf(request, action),
  }
}

function metadataOf(request: SandboxRequest, action: SandboxFacts['action']): Draft['metadata'] {
  switch (request.kind) {
    case 'local_process':
    case 'remote_shell':
      return { backend_kind: request.kind }
    case 'container': {
      const { kind, image_ref, network_mode, env_ref_names, mounts } = request
      return { backend_kind: kind, image_ref, network_mode, env_ref_names, mount_count: mounts.length }
    }
    case 'browser_tool':
      return {
        backend_kind: request.kind,
        tool_name: request.tool_name,
        ...(action.form === 'reference' && { action_ref: action.ref }),
        redacted_result_metadata: redactResultMetadata(request.result_metadata) as Json & string,
      }
  }
}

/** Nothing ran, so a denial states no isolation. It states the request, the operator and the backend. */
function denialOf(
  { isolation: _, kind, metadata, links, ...draft }: Draft,
  facts: SandboxFacts,
  { rule, missing, grantOutcome }: SandboxRefusal,
): ReceiptDraft {
  const { policy_envelope_id, capability_grant_id } = facts.request
  return {
    ...draft,
    kind: 'denial',
    phase: 'point',
    status: 'denied',
    links: {
      ...links,
      ...(policy_envelope_id && { policy_envelope_id }),
      ...(capability_grant_id && { grant_id: capability_grant_id }),
      ...(grantOutcome && { grant_outcome: grantOutcome }),
    },
    metadata: { ...metadata, denied_kind: kind },
    decision: { effect: 'deny', rule, missing: [...missing], ...inputOf(facts) },
  }
}

function wholeDecision(
  decision: NonNullable<ReceiptDraft['decision']>,
  facts: SandboxFacts,
): NonNullable<ReceiptDraft['decision']> {
  return { ...decision, ...inputOf({ ...facts, policy: decision.input as never }) }
}

function inputOf(facts: SandboxFacts): { readonly input: Json & string; readonly replayable: boolean } {
  return { input: JSON.parse(JSON.stringify(facts)), replayable: !redactValue(facts).redacted }
}

function digestOf(argv: readonly string[]): string {
  return `sha256:${hash('sha256', canonicalJson([...argv]))}`
}

async function ensureFixtureAction(
  tables: Tables,
  operator: string,
  receipts: ReceiptWriter,
  clock: Clock,
): Promise<boolean> {
  const { ref, argv } = FIXTURE_ACTION
  const known = await tables.commands.get(ref)
  if (known !== undefined) {
    if (digestOf(known.argv) === digestOf(argv)) return false
    throw new CraikError('conflict', `another command is registered as ${ref}`, {
      hint: `remove yours first, because the fixture needs that name:  craik command remove ${ref}`,
    })
  }
  await tables.commands.insert({ ref, argv, createdAtMs: clock.nowMs() })
  await receipts.append(tables, {
    kind: 'environment_decision',
    phase: 'point',
    status: 'passed',
    operator,
    capability: 'command.write',
    operation: 'register',
    target: `command/${ref}`,
    links: { command_ref: ref },
    metadata: { source: 'fixture' },
  })
  return true
}
