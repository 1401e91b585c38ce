import { describe, expect, test } from 'vitest'
import { buildEnvelope, createEnvelope } from '../../policy/envelope.ts'
import { createGrant, revokeGrant } from '../../policy/grants.ts'
import { START_MS } from '../../policy/policy.fixture.ts'
import { readBuiltInPolicy } from '../../policy/profiles.ts'
import { replayLog } from '../../run/replay-log.ts'
import { OPERATIONS, type OperationName } from '../operations.ts'
import { deniedOperationError } from './denied-operation.ts'
import { ADA_USER, BOB, DEAD, EPOCH, hello, LifecycleStore, ME, newJobId } from './lifecycle.fixture.ts'
import {
  type BeginOperationInput,
  beginDelete,
  beginOperation,
  beginTransition,
  endOperation,
  refuseInbound,
  requireJobOwner,
  restartJob,
} from './tokens.ts'

type Crossing = BeginOperationInput['operation']
const CROSSINGS = (Object.keys(OPERATIONS) as OperationName[]).filter(
  (name): name is Crossing => OPERATIONS[name].counted !== undefined,
)

/** Returns what an operation needs besides its name. */
function operationInput(operation: Crossing): Partial<BeginOperationInput> {
  return { ...(OPERATIONS[operation].counted === 'jobs' ? hello() : {}), operation }
}

describe.each([...CROSSINGS, 'stop' as const, 'pause' as const, 'delete' as const])('%s', (name) => {
  const { capability, operation } = OPERATIONS[name]

  async function ask(fixture: LifecycleStore, id: Parameters<LifecycleStore['begin']>[0], grantId?: string) {
    const provided = grantId === undefined ? {} : { grantId }
    if (name === 'delete')
      return fixture.store.write(beginDelete, { id, operator: ADA_USER, owner: ME, ...provided })
    if (name === 'stop' || name === 'pause')
      return fixture.store.write(beginTransition, {
        id,
        verb: name,
        operator: ADA_USER,
        owner: ME,
        ...provided,
      })
    return fixture.begin(id, { ...operationInput(name), ...provided })
  }

  async function revokeOwn(fixture: LifecycleStore, grants: Readonly<Record<string, string>>) {
    for (const grant of Object.values(grants)) await revokeGrant(fixture.store, grant, ADA_USER)
  }

  test('is allowed for the operator who created the sandbox, under its own capability, before anything happens', async () => {
    const fixture = new LifecycleStore()
    const { id } = await fixture.sandbox()
    expect(await ask(fixture, id)).toMatchObject({ effect: 'allowed' })
    expect((await fixture.store.bodies()).at(-1)).toMatchObject({
      kind: 'sandbox_action',
      phase: 'begin',
      capability,
      operation,
      target: `sandbox/${id}`,
      links: { sandbox_id: id, grant_outcome: 'usable' },
      owner: { pid: ME.pid, boot_id: ME.bootId },
      isolation: 'process',
    })
  })

  test('is denied, with a receipt, once the grant is revoked', async () => {
    const fixture = new LifecycleStore()
    const { id, owner_grants } = await fixture.sandbox()
    await revokeOwn(fixture, owner_grants)
    const before = (await fixture.store.bodies()).length
    const answer = await ask(fixture, id)
    expect(answer).toMatchObject({ effect: 'denied', evaluation: { missing: ['capability_grant'] } })
    const bodies = await fixture.store.bodies()
    expect(bodies.length).toBe(before + 1)
    expect(bodies.at(-1)).toMatchObject({ kind: 'denial', status: 'denied', capability, operation })
    expect(await fixture.store.tables.sandboxJobs.open(id)).toEqual([])
    expect(await ask(fixture, id, owner_grants[capability]!)).toMatchObject({
      evaluation: { grantOutcome: 'revoked' },
    })
  })

  test('is denied with the grant of another sandbox, another capability, or another operator', async () => {
    const fixture = new LifecycleStore()
    const [mine, other] = [await fixture.sandbox(), await fixture.sandbox()]
    await revokeOwn(fixture, mine.owner_grants)
    expect(await ask(fixture, mine.id)).toMatchObject({ effect: 'denied' })
    expect(await ask(fixture, mine.id, other.owner_grants[capability]!)).toMatchObject({
      effect: 'denied',
      evaluation: { grantOutcome: 'wrong_target' },
    })
    const terms = {
      scope: 'any' as const,
      target: { ref: `sandbox/${mine.id}` },
      operations: [operation],
      approved_by: ADA_USER,
    }
    const wrong = await createGrant(fixture.store, {
      ...terms,
      capability: 'sandbox.restore',
      subject: ADA_USER,
    })
    const foreign = await createGrant(fixture.store, { ...terms, capability, subject: BOB })
    for (const { grant } of [wrong, foreign])
      expect(await ask(fixture, mine.id, grant.id)).toMatchObject({ effect: 'denied' })
    expect(await ask(fixture, mine.id)).toMatchObject({ effect: 'denied' })
  })
})

test('every decision, allowed or denied, is recomputed from its receipt', async () => {
  const fixture = new LifecycleStore()
  const { id, owner_grants } = await fixture.sandbox()
  for (const name of CROSSINGS) await fixture.begin(id, operationInput(name))
  for (const name of CROSSINGS) await fixture.begin(id, { ...operationInput(name), operator: BOB })
  await revokeGrant(fixture.store, owner_grants['sandbox.exec']!, ADA_USER)
  await fixture.begin(id, operationInput('exec'))
  await fixture.store.write(refuseInbound, { id, epoch: EPOCH, count: 3, owner: ME })
  const lines = await fixture.lines()
  const replay = await replayLog(
    (async function* () {
      yield* lines
    })(),
    async () => {},
  )
  expect(replay).toMatchObject({ differ: [], notReplayable: 0 })
  expect(replay.decisions).toBe(2 * CROSSINGS.length + 3)
  expect(replay.agree).toBe(replay.decisions)
})

test('an operator whom the envelope does not name is denied, whatever grants they have', async () => {
  const fixture = new LifecycleStore()
  const { id } = await fixture.sandbox()
  await createGrant(fixture.store, {
    capability: 'sandbox.exec',
    subject: BOB,
    scope: 'any',
    target: { ref: `sandbox/${id}` },
    operations: ['exec'],
    approved_by: ADA_USER,
  })
  const answer = await fixture.begin(id, { ...hello(), operator: BOB })
  expect(answer).toMatchObject({ effect: 'denied', evaluation: { rule: 'envelope.operator' } })
})

test('under an envelope that names two operators, a grant of the second is found', async () => {
  const fixture = new LifecycleStore()
  const policyText = readBuiltInPolicy('automation')
  const envelope = buildEnvelope({
    id: 'policy_shared',
    taskId: null,
    actor: ADA_USER,
    profile: 'automation',
    policyText,
    nowMs: START_MS,
    allowedOperators: [BOB],
  })
  await createEnvelope(fixture.store, envelope, policyText, { operator: ADA_USER })
  const { id } = await fixture.sandbox({ policyEnvelopeId: envelope.id })
  expect(await fixture.begin(id, { operator: BOB })).toMatchObject({ effect: 'denied' })
  const { grant } = await createGrant(fixture.store, {
    capability: 'sandbox.inspect',
    subject: BOB,
    scope: 'any',
    target: { ref: `sandbox/${id}` },
    operations: ['metrics'],
    approved_by: ADA_USER,
  })
  expect(await fixture.begin(id, { operator: BOB })).toMatchObject({
    effect: 'allowed',
    begun: { begin: { links: { grant_id: grant.id } } },
  })
  expect(await fixture.begin(id, { operator: BOB })).toMatchObject({ effect: 'denied' })
})

describe('a job', () => {
  test('with the same id begins once, however many requests arrive at the same time', async () => {
    const fixture = new LifecycleStore()
    const { id } = await fixture.sandbox()
    const job = hello()
    const answers = await Promise.all(Array.from({ length: 5 }, () => fixture.begin(id, job)))
    const begun = answers.map((answer) => answer.effect === 'allowed' && answer.begun.id)
    expect(new Set(begun).size).toBe(1)
    expect(answers.filter((answer) => answer.effect === 'allowed' && !answer.known)).toHaveLength(1)
    expect(answers.at(-1)).toMatchObject({ known: { state: 'open' } })
    const begins = (await fixture.store.bodies()).filter(({ operation }) => operation === 'exec')
    expect(begins).toHaveLength(1)
  })

  test('of another operator is denied with a receipt, and another request under its id is a conflict', async () => {
    const fixture = new LifecycleStore()
    const { id } = await fixture.sandbox()
    const job = hello()
    await fixture.begin(id, job)
    const denied = await fixture.begin(id, { ...job, operator: BOB })
    expect(denied).toMatchObject({ effect: 'denied', evaluation: { rule: 'sandbox.job_operator' } })
    if (denied.effect !== 'denied') throw new Error('allowed')
    expect(deniedOperationError(denied)).toMatchObject({
      code: 'denied',
      details: { receipt_id: denied.ref.id },
    })
    expect((await fixture.store.bodies()).at(-1)).toMatchObject({ kind: 'denial', operator: BOB })
    const other = { ...job, job: { ...job.job!, argv: ['rm', '-rf', '/'] } }
    await expect(fixture.begin(id, other)).rejects.toMatchObject({ code: 'conflict' })
    await expect(fixture.begin(id, { ...job, operation: 'terminal' })).rejects.toMatchObject({
      code: 'conflict',
    })
  })

  test('can be read only by the operator who started it, and others are denied with a receipt', async () => {
    const fixture = new LifecycleStore()
    const { id } = await fixture.sandbox()
    const job = hello()
    await fixture.begin(id, job)
    const question = { id, jobId: job.job!.id, action: 'output' }
    expect(await fixture.store.write(requireJobOwner, { ...question, operator: ADA_USER })).toBeUndefined()
    expect(await fixture.store.write(requireJobOwner, { ...question, operator: BOB })).toMatchObject({
      effect: 'denied',
    })
    expect((await fixture.store.bodies()).at(-1)).toMatchObject({ metadata: { action: 'output' } })
  })

  test('is recorded without its arguments, with only a digest that needs the key', async () => {
    const fixture = new LifecycleStore()
    const { id } = await fixture.sandbox()
    const job = hello()
    await fixture.begin(id, { ...job, pinned: { path: '/workspace/home/hunter2-file' } })
    const [begin] = (await fixture.store.bodies()).slice(-1)
    expect(begin?.digests).toEqual({
      argv_hmac: expect.stringMatching(/^sha256:[0-9a-f]{64}$/),
      path_hmac: expect.stringMatching(/^sha256:[0-9a-f]{64}$/),
    })
    const stored = [
      ...(await fixture.lines()),
      JSON.stringify(await fixture.store.tables.sandboxJobs.open(id)),
    ]
    expect(stored.join('\n')).not.toContain('hunter2')
  })

  test('ends once, with what was observed and what was claimed', async () => {
    const fixture = new LifecycleStore()
    const { id } = await fixture.sandbox()
    const job = hello()
    const begun = await fixture.beginAllowed(id, job)
    const end = {
      id,
      begun,
      jobId: job.job!.id,
      status: 'passed' as const,
      measures: [
        { name: 'bytes_in', value: 6, source: 'observed' as const },
        { name: 'stdout_bytes', value: 6, source: 'claimed' as const },
      ],
    }
    expect(await fixture.store.write(endOperation, end)).toMatchObject({ id: expect.any(String) })
    expect(await fixture.store.write(endOperation, end)).toBeUndefined()
    expect((await fixture.store.bodies()).at(-1)).toMatchObject({
      phase: 'end',
      begin_id: begun.id,
      links: { sandbox_id: id, job_id: job.job!.id },
      metadata: { epoch: EPOCH },
      measures: end.measures,
    })
    expect(await fixture.begin(id, job)).toMatchObject({ known: { state: 'ended' } })
  })

  test('that never reached the sandbox counts in the epoch in which it is sent', async () => {
    const fixture = new LifecycleStore()
    const { id } = await fixture.sandbox()
    const job = hello()
    const begun = await fixture.beginAllowed(id, { ...job, owner: DEAD })
    const jobId = job.job!.id
    await fixture.store.write(restartJob, { id, jobId, epoch: 'epoch_2', owner: ME })
    expect((await fixture.store.bodies()).at(-1)).toMatchObject({
      phase: 'point',
      links: { receipt_ids: [begun.id], job_id: jobId },
      metadata: { epoch: 'epoch_2', restarted: true },
    })
    await fixture.store.write(endOperation, { id, begun, jobId, status: 'passed' })
    expect((await fixture.store.bodies()).at(-1)).toMatchObject({
      metadata: { epoch: 'epoch_2', adopted: true },
    })
    await expect(
      fixture.store.write(restartJob, { id, jobId, epoch: 'epoch_2', owner: ME }),
    ).rejects.toMatchObject({ code: 'conflict' })
  })

  test('is refused when its record was edited', async () => {
    const fixture = new LifecycleStore()
    const { id } = await fixture.sandbox()
    const job = hello()
    await fixture.begin(id, job)
    fixture.store.database
      .prepare(`UPDATE sandbox_jobs SET document = json_set(document, '$.operator', ?)`)
      .run(BOB)
    await expect(
      fixture.store.write(requireJobOwner, { id, jobId: job.job!.id, operator: BOB, action: 'output' }),
    ).rejects.toMatchObject({ code: 'tampered' })
  })

  test('needs an id in the format of job ids', async () => {
    const fixture = new LifecycleStore()
    const { id } = await fixture.sandbox()
    const job = { ...hello().job!, id: '../x' as ReturnType<typeof newJobId> }
    await expect(fixture.begin(id, { operation: 'exec', job })).rejects.toMatchObject({ code: 'usage' })
  })
})

describe('a registered command', () => {
  test('is looked up in the transaction that decides, and named in the receipt', async () => {
    const fixture = new LifecycleStore()
    const { id } = await fixture.sandbox()
    await fixture.store.tables.commands.insert({
      ref: 'unit-tests',
      argv: ['npm', 'test'],
      createdAtMs: START_MS,
    })
    const job = { id: newJobId(), spec: { kind: 'exec', argv: [] }, argv: [], commandRef: 'unit-tests' }
    expect(await fixture.begin(id, { operation: 'exec', job })).toMatchObject({
      effect: 'allowed',
      argv: ['npm', 'test'],
      begun: { begin: { links: { command_ref: 'unit-tests' } } },
    })
    expect(await fixture.begin(id, { operation: 'exec', job })).toMatchObject({
      known: { state: 'open' },
      argv: ['npm', 'test'],
    })
  })

  test('that was registered again with other arguments is another request', async () => {
    const fixture = new LifecycleStore()
    const { id } = await fixture.sandbox()
    const { commands } = fixture.store.tables
    const job = { id: newJobId(), spec: { kind: 'exec', argv: [] }, commandRef: 'unit-tests' }
    await commands.insert({ ref: 'unit-tests', argv: ['npm', 'test'], createdAtMs: START_MS })
    await fixture.begin(id, { operation: 'exec', job })
    await commands.remove('unit-tests')
    await commands.insert({ ref: 'unit-tests', argv: ['curl', 'elsewhere'], createdAtMs: START_MS })
    await expect(fixture.begin(id, { operation: 'exec', job })).rejects.toMatchObject({ code: 'conflict' })
  })

  test('that is not registered is not found, and an operator who may not run anything does not learn that', async () => {
    const fixture = new LifecycleStore()
    const { id } = await fixture.sandbox()
    const job = { id: newJobId(), spec: { kind: 'exec', argv: [] }, commandRef: 'nothing' }
    await expect(fixture.begin(id, { operation: 'exec', job })).rejects.toMatchObject({ code: 'not_found' })
    expect(await fixture.begin(id, { operation: 'exec', job, operator: BOB })).toMatchObject({
      effect: 'denied',
    })
  })
})

test('no operation begins in a sandbox that does not run or does not exist', async () => {
  const fixture = new LifecycleStore()
  const { id } = await fixture.sandbox()
  await fixture.store.write(beginDelete, { id, operator: ADA_USER, owner: ME })
  await expect(fixture.begin(id)).rejects.toMatchObject({ code: 'sandbox_stopped' })
  await expect(
    fixture.store.write(beginOperation, {
      id: 'sbx_nothing' as typeof id,
      operation: 'metrics',
      operator: ADA_USER,
      epoch: EPOCH,
      owner: ME,
    }),
  ).rejects.toMatchObject({ code: 'not_found' })
})

test('connections from the sandbox are refused by a decision that records how many were counted', async () => {
  const fixture = new LifecycleStore()
  const { id } = await fixture.sandbox()
  await fixture.store.write(refuseInbound, { id, epoch: EPOCH, count: 12, owner: ME })
  expect((await fixture.store.bodies()).at(-1)).toMatchObject({
    kind: 'denial',
    capability: 'network.egress',
    operator: ADA_USER,
    links: { sandbox_id: id },
    metadata: { epoch: EPOCH, count: 12 },
  })
})
