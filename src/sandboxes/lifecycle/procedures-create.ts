/** Creating a sandbox: decided and recorded before anything is started, complete or removed afterwards. */
import { hash, randomInt } from 'node:crypto'
import { CraikError } from '../../errors.ts'
import { buildEnvelope } from '../../policy/envelope.ts'
import { createEnvelope } from '../../policy/procedures.ts'
import { builtInText } from '../../policy/profiles.ts'
import { refuseSecrets } from '../../policy/request.ts'
import type { HostUser } from '../backend.ts'
import { OPERATIONS } from '../operations.ts'
import { judgeQuestion, linksOf, settle } from './decide.ts'
import { createTarget, grantToOwner } from './grants.ts'
import { refuseOverlap } from './overlap.ts'
import type { SandboxKeeper } from './sandbox-keeper.ts'
import { MAX_SANDBOXES, type SandboxRecord } from './sandbox-record.ts'
import type { BeginCreateInput, BeginCreateOutput, EndCreateInput, EndCreateOutput } from './tokens.ts'

/**
 * A range that nobody else hands out: above systemd's containers (524,288 to 1,879,048,191), `/etc/subuid` (by default at
 * most 600,100,000) and the directories of SSSD (by default at most 2,000,200,000), and below systemd's range for
 * foreign images (from 2,147,352,576).
 */
const FIRST_UID = 2_100_000_000
const UIDS = 65_536

export async function beginCreate(
  keeper: SandboxKeeper,
  input: BeginCreateInput,
): Promise<BeginCreateOutput> {
  refuseSecrets({ name: input.name, environment: input.environment }, 'the sandbox')
  const policyEnvelopeId = input.policyEnvelopeId ?? (await sandboxEnvelope(keeper, input.operator))
  const judged = await judgeQuestion(keeper, {
    ...OPERATIONS.create,
    operator: input.operator,
    target: createTarget(input.name),
    policyEnvelopeId,
    grantId: input.grantId,
  })
  // Only who may create one is told what there is already.
  const fixed = judged.isAllowed ? await chosen(keeper, input) : undefined
  const settled = await settle(
    keeper,
    judged,
    {
      links: linksOf(input),
      isolation: input.isolation,
      metadata: { workspace: input.workspace.mode, isolation_asked: input.isolation },
    },
    input.owner,
  )
  if (settled.effect === 'denied') return settled
  if (fixed === undefined) throw new CraikError('internal', 'a sandbox was allowed that was not judged')
  const { begun } = settled
  const record: SandboxRecord = {
    id: input.id,
    name: fixed.name,
    backend: input.backend,
    state: 'creating',
    spec: {
      isolation: input.isolation,
      workspace: input.workspace,
      limits: input.limits,
      environment: { ...input.environment },
      hostUser: fixed.hostUser ?? null,
    },
    place: null,
    operator: input.operator,
    policy_envelope_id: policyEnvelopeId,
    allocated_uid: input.hostUser === 'allocate' ? fixed.hostUser!.uid : null,
    owner_grants: {},
    pending: { begin_id: begun.id, begin: begun.begin, owner: input.owner },
    epoch: null,
    notice: null,
    jobs_forgotten_to: null,
    created_at_ms: keeper.nowMs,
    updated_at_ms: keeper.nowMs,
  }
  return { effect: 'allowed', record: await keeper.put(record, 'insert'), begun }
}

export async function endCreate(keeper: SandboxKeeper, input: EndCreateInput): Promise<EndCreateOutput> {
  const { pending, ...record } = await keeper.sandbox(input.id)
  if (record.state !== 'creating' || pending === null) {
    throw new CraikError('conflict', `sandbox ${input.id} is not being created: it is ${record.state}`)
  }
  if (input.status !== 'passed') {
    const receipt = await keeper.endPending(pending, { status: input.status })
    await keeper.tables.boundaryEpochs.removeAll(input.id)
    await keeper.tables.sandboxes.remove(input.id)
    return { record: undefined, receipt }
  }
  const { place, measures } = input
  const receipt = await keeper.endPending(pending, {
    status: 'passed',
    isolation: place.isolation,
    ...(measures && { measures }),
    metadata: { ...place.enforced, host_uid: place.hostUid },
  })
  const owner_grants = await grantToOwner(keeper, record)
  const running: SandboxRecord = { ...record, pending: null, state: 'running', place, owner_grants }
  return { record: await keeper.put(running, 'update'), receipt }
}

/** What only one sandbox can have: its place in the home, its name, its user. */
async function chosen(
  { tables }: SandboxKeeper,
  { id, name, hostUser, workspace }: BeginCreateInput,
): Promise<{ readonly name: string; readonly hostUser: HostUser | undefined }> {
  const rows = await tables.sandboxes.list({}, MAX_SANDBOXES)
  if (rows.length >= MAX_SANDBOXES) {
    throw new CraikError('limit_reached', `there are ${MAX_SANDBOXES} sandboxes already`, {
      hint: 'delete one that is not needed:  craik sandbox list',
    })
  }
  refuseOverlap(workspace, rows)
  const isTaken = async (one: string) => (await tables.sandboxes.list({ name: one }, 1)).length > 0
  if (name !== undefined && (await isTaken(name))) {
    throw new CraikError('conflict', `a sandbox is called ${name} already`, {
      hint: `use it:  craik sandbox shell ${name}   or give another --name`,
    })
  }
  const short = `sandbox-${id.slice(-6).toLowerCase()}`
  const given = name ?? ((await isTaken(short)) ? `sandbox-${id.slice(4).toLowerCase()}` : short)
  if (hostUser !== 'allocate') return { name: given, hostUser }
  // Of what was changed outside Craik too: its user is not given to another.
  const used = new Set(rows.map(({ document }) => uidIn(document)))
  return { name: given, hostUser: freeUser(used) }
}

function uidIn(document: string): unknown {
  return (JSON.parse(document) as { readonly allocated_uid?: unknown } | null)?.allocated_uid
}

/** From a random one on: another home of this machine allocates from the same range without knowing of ours. */
function freeUser(used: ReadonlySet<unknown>): HostUser {
  let uid = FIRST_UID + randomInt(UIDS)
  while (used.has(uid)) uid = FIRST_UID + ((uid + 1 - FIRST_UID) % UIDS)
  return { uid, gid: uid }
}

/** One per operator and policy text. Under it nothing is done to a sandbox without a grant. */
export async function sandboxEnvelope(
  { tables, sealer, nowMs }: SandboxKeeper,
  operator: string,
): Promise<string> {
  const policyText = await builtInText('automation')
  const name = hash('sha256', JSON.stringify([operator, 'automation', policyText]))
  const envelope = buildEnvelope({
    id: `envelope_sandboxes_${name.slice(0, 32)}`,
    taskId: null,
    actor: operator,
    profile: 'automation',
    policyText,
    nowMs,
  })
  await createEnvelope(tables, { envelope, policyText, operator }, sealer)
  return envelope.id
}
