/**
 * Creates a sandbox. The decision is made and recorded before anything starts. Afterwards the sandbox is either
 * complete or removed.
 */
import { hash } from 'node:crypto'
import { CraikError } from '../../errors.ts'
import type { SandboxId } from '../../lib/ids.ts'
import { refuseSecrets } from '../../policy/decision-request.ts'
import { buildEnvelope, isEnvelopeOf, parseEnvelope } from '../../policy/envelope.ts'
import { insertEnvelope } from '../../policy/policy-procedures.ts'
import { readBuiltInPolicy } from '../../policy/profiles.ts'
import { endDraft, type Outcome } from '../../receipts/receipt-log.ts'
import type { Measure } from '../../receipts/schema.ts'
import type { ContainerSpec, HostUser } from '../backend.ts'
import { OPERATIONS } from '../operations.ts'
import { findOfferedInstance, type ReadyInstance, takeInstance } from '../pool/adopt.ts'
import { MAX_WARM_ROWS } from '../pool/warm-record.ts'
import { refuseVolumesInUse } from '../volumes/volume-users.ts'
import { requireCapacity, UNBOUNDED } from './admission.ts'
import { commitDecision, evaluateSandbox, sandboxLinks } from './decide-sandbox.ts'
import { refuseExplicitFields, refuseRequest } from './explicit-fields.ts'
import { evaluateHostResources, recordHostResources } from './host-resources.ts'
import { refuseMountOverlap, refuseOverlap } from './overlap.ts'
import { createTarget, grantToOwner } from './sandbox-grants.ts'
import { MAX_SANDBOXES, type RecordedInstance, type SandboxRecord } from './sandbox-record.ts'
import type { SandboxRecords } from './sandbox-records.ts'
import { freeUser, usedUids } from './sandbox-users.ts'
import type { BeginCreateInput, BeginCreateOutput, EndCreateInput, EndCreateOutput } from './tokens.ts'
import { OPERABLE, TRANSITIONS } from './transitions.ts'

export async function beginCreate(
  records: SandboxRecords,
  input: BeginCreateInput,
): Promise<BeginCreateOutput> {
  refuseSecrets({ name: input.name, environment: input.environment }, 'the sandbox')
  const refusal = refuseExplicitFields(input.backend, input.stated)
  if (refusal !== undefined) return refuseRequest(records, input, refusal)
  const warm = await findOfferedInstance(records, input)
  if (input.adopt !== undefined && warm === undefined) return { effect: 'gone' }
  const policyEnvelopeId = input.policyEnvelopeId ?? (await sandboxEnvelope(records, input.operator))
  const evaluated = await evaluateSandbox(records, {
    ...OPERATIONS.create,
    operator: input.operator,
    target: createTarget(input.name),
    policyEnvelopeId,
    grantId: input.grantId,
  })
  const folders = evaluated.isAllowed ? await evaluateHostResources(records, input, policyEnvelopeId) : []
  const withheld = folders.find(({ isAllowed }) => !isAllowed)
  // Only a caller who may create a sandbox learns what exists already.
  const fixed =
    evaluated.isAllowed && withheld === undefined ? await newRecord(records, input, warm) : undefined
  // A denial does not reveal the id of a warm instance that another sandbox may get.
  const id = fixed?.id ?? input.id
  const provided = await recordHostResources(records, withheld === undefined ? folders : [withheld], input)
  if (provided.effect === 'denied') return provided
  const settled = await commitDecision(
    records,
    evaluated,
    {
      links: {
        ...sandboxLinks({ id, backend: input.backend }),
        ...(provided.receipts.length > 0 && { receipt_ids: [...provided.receipts] }),
      },
      isolation: input.isolation,
      metadata: {
        workspace: input.workspace.mode,
        ...((input.mounts ?? []).length > 0 && { mounts: input.mounts!.length }),
        ...((input.volumes ?? []).length > 0 && { volumes: input.volumes!.map(({ name }) => name) }),
        isolation_asked: input.isolation,
        logins: input.credentials ?? 'none',
        ...harnessFacts(input),
        ...(input.container && containerFacts(input.container)),
        ...(input.snapshot !== undefined && { snapshot: input.snapshot }),
        // A warm instance without the folders may turn out unable to mount them. Then Craik starts another instance.
        ...(warm?.late === null && { warm: true }),
      },
    },
    input.owner,
  )
  if (settled.effect === 'denied') return settled
  if (fixed === undefined) throw new CraikError('internal', 'a sandbox was allowed without a decision')
  const { begun } = settled
  const record: SandboxRecord = {
    id,
    name: fixed.name,
    backend: input.backend,
    state: TRANSITIONS.create.during,
    spec: {
      isolation: input.isolation,
      workspace: input.workspace,
      mounts: (input.mounts ?? []).map(({ folder, at }) => ({ folder, at })),
      volumes: (input.volumes ?? []).map(({ name, at }) => ({ name, at })),
      limits: input.limits,
      environment: { ...input.environment },
      harnesses: [...(input.harnesses ?? [])],
      credentials: input.credentials ?? 'none',
      hostUser: fixed.hostUser ?? null,
      container: input.container ?? null,
    },
    place: warm?.place ?? null,
    operator: input.operator,
    policy_envelope_id: policyEnvelopeId,
    allocated_uid: input.hostUser === 'allocate' ? fixed.hostUser!.uid : null,
    owner_grants: {},
    pending: { begin_id: begun.id, begin: begun.begin, owner: input.owner, from: null },
    ends: input.ends ?? { idle_ms: null, lifetime_ms: null, keep_ms: null },
    active_at_ms: null,
    started_at_ms: null,
    stopped_at_ms: null,
    epoch: warm === undefined ? null : input.adopt!.epoch,
    notice: null,
    jobs_forgotten_to: null,
    created_at_ms: records.nowMs,
    updated_at_ms: records.nowMs,
  }
  if (warm === undefined) return { effect: 'allowed', record: await records.put(record, 'insert'), begun }
  if (warm.late !== null) {
    const taken = await records.put(record, 'insert')
    await takeInstance(records, warm, input.adopt!.epoch)
    return { effect: 'taken', record: taken }
  }
  // The instance already runs. So this transaction also writes what `endCreate` would write later.
  const measures = [
    {
      name: 'duration_ms',
      value: Math.max(0, records.nowMs - input.adopt!.beganAtMs),
      source: 'observed' as const,
    },
  ]
  const ended = endDraft(begun.id, begun.begin, passedOutcome(warm.place, measures, { warm: true }))
  await records.sealer.append(records.tables, ended)
  const running = await records.put(await startedSandbox(records, record, warm.place), 'insert')
  await takeInstance(records, warm, input.adopt!.epoch)
  return { effect: 'adopted', record: running }
}

export async function endCreate(records: SandboxRecords, input: EndCreateInput): Promise<EndCreateOutput> {
  const record = await records.sandbox(input.id)
  const { pending } = record
  if (record.state !== TRANSITIONS.create.during || pending === null) {
    throw new CraikError('conflict', `sandbox ${input.id} is not being created: it is ${record.state}`, {
      hint: `show the sandbox:  craik sandbox show ${input.id}`,
    })
  }
  if (input.status !== 'passed') {
    const receipt = await records.endPending(pending, { status: input.status })
    await records.tables.boundaryEpochs.removeAll(input.id)
    await records.tables.sandboxes.remove(input.id)
    return { record: undefined, receipt }
  }
  const { place: instance, measures, warm } = input
  const receipt = await records.endPending(
    pending,
    passedOutcome(instance, measures, warm ? { warm: true } : {}),
  )
  return { record: await records.put(await startedSandbox(records, record, instance), 'update'), receipt }
}

function passedOutcome(
  instance: RecordedInstance,
  measures: Measure[] | undefined,
  more: Outcome['metadata'] = {},
): Outcome {
  return {
    status: 'passed',
    isolation: instance.isolation,
    ...(measures && { measures }),
    metadata: { ...instance.enforced, host_uid: instance.hostUid, ...more },
  }
}

/** Returns the record of the running sandbox, after its operator got the grants for it. */
async function startedSandbox(
  records: SandboxRecords,
  record: SandboxRecord,
  instance: RecordedInstance,
): Promise<SandboxRecord> {
  return {
    ...record,
    pending: null,
    state: OPERABLE,
    place: instance,
    owner_grants: await grantToOwner(records, record),
    active_at_ms: records.nowMs,
    started_at_ms: records.nowMs,
  }
}

/** Returns what the receipt says about a container: the image by its digest, and how Craik reaches it. */
function containerFacts({ image, runtime, line }: ContainerSpec): Record<string, string> {
  return { image, runtime, line, network: 'none' }
}

/** Returns the ids of the sandbox's harness packages. Each id identifies the exact recipe. */
function harnessFacts({ harnesses = [], container }: BeginCreateInput): { readonly harnesses?: string[] } {
  const ids = [...harnesses, ...(container?.harnesses ?? [])]
  return ids.length === 0 ? {} : { harnesses: ids }
}

/** Determines what only one sandbox can have: its id in the home, its name and its user. */
async function newRecord(
  { tables }: SandboxRecords,
  {
    id: fresh,
    name,
    hostUser,
    workspace,
    mounts = [],
    volumes = [],
    limits,
    admission = UNBOUNDED,
  }: BeginCreateInput,
  warm: ReadyInstance | undefined,
): Promise<{ readonly id: SandboxId; readonly name: string; readonly hostUser: HostUser | undefined }> {
  const id = warm?.id ?? fresh
  // Warm instances take no capacity from a sandbox, because Craik gives them up for it.
  const rows = await tables.sandboxes.list({}, 2 * MAX_SANDBOXES)
  requireCapacity(rows, limits, admission, 'create')
  refuseOverlap(workspace, rows)
  refuseMountOverlap(workspace, mounts, rows)
  refuseVolumesInUse(volumes, rows)
  const isTaken = async (one: string) => (await tables.sandboxes.list({ name: one }, 1)).length > 0
  if (name !== undefined && (await isTaken(name))) {
    throw new CraikError('conflict', `a sandbox named ${name} already exists`, {
      hint: `use that sandbox:  craik sandbox shell ${name}   or choose another --name`,
    })
  }
  const short = `sandbox-${id.slice(-6).toLowerCase()}`
  const provided = name ?? ((await isTaken(short)) ? `sandbox-${id.slice(4).toLowerCase()}` : short)
  if (hostUser !== 'allocate') return { id, name: provided, hostUser }
  if (warm !== undefined) return { id, name: provided, hostUser: warm.spec.hostUser ?? undefined }
  const waiting = await tables.warmInstances.list({}, MAX_WARM_ROWS)
  return { id, name: provided, hostUser: freeUser(usedUids([...rows, ...waiting])) }
}

/**
 * Returns the envelope of the operator's sandboxes: one per operator and policy text. Under it, each action on a
 * sandbox needs a grant.
 */
export async function sandboxEnvelope(
  { tables, sealer, nowMs }: SandboxRecords,
  operator: string,
): Promise<string> {
  const policyText = readBuiltInPolicy('automation')
  const name = hash('sha256', JSON.stringify([operator, 'automation', policyText]))
  const id = `envelope_sandboxes_${name.slice(0, 32)}`
  const terms = { id, taskId: null, actor: operator, profile: 'automation' as const, policyText, nowMs }
  const row = await tables.envelopes.get(id)
  if (row !== undefined && isEnvelopeOf(parseEnvelope(row.id, row.document), terms)) return id
  const envelope = buildEnvelope(terms)
  await insertEnvelope(tables, { envelope, policyText, operator }, sealer)
  return envelope.id
}
