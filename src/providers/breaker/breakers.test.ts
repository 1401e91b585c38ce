import { expect, test } from 'vitest'
import { type InProcessStore, inProcessStore } from '../../../test/in-process-store.ts'
import type { Owner } from '../../lib/owner.ts'
import { TestClock } from '../../policy/policy.fixture.ts'
import { CALL_MS_MAX } from '../adapters/limits.ts'
import { breakerStates, checkBreaker, reportToBreaker } from './breakers.ts'
import { type BreakerAdmission, breakerReset } from './tokens.ts'

const P = 'provider_openai'
const ILL = { result: 'failed', failure: 'unreachable' } as const

function createDeps(clock = new TestClock(), store: InProcessStore = inProcessStore(clock)) {
  return { clock, store, owner: store.log.owner }
}

/** An owner with this process's machine and start time, but an unused pid: it counts as dead. */
function deadOwner(owner: Owner): Owner {
  return { ...owner, startedAt: '0' }
}

async function open(at: ReturnType<typeof createDeps>): Promise<void> {
  for (let i = 0; i < 3; i++) await reportToBreaker(at, P, undefined, ILL)
}

test('a provider that never failed costs one read and writes no row', async () => {
  const at = createDeps()
  expect(await checkBreaker(at, P, null)).toEqual({ admitted: true, probeId: undefined })
  await reportToBreaker(at, P, undefined, { result: 'answered' })
  expect(await at.store.tables.breakers.list()).toEqual([])
})

test('refuses while open, and reports the cause and the end of the cooldown', async () => {
  const at = createDeps()
  await open(at)
  expect(await checkBreaker(at, P, null)).toEqual({
    admitted: false,
    phase: 'open',
    lastFailure: 'unreachable',
    nowMs: at.clock.nowMs(),
    openUntilMs: at.clock.nowMs() + 30_000,
    retryAtMs: at.clock.nowMs() + 30_000,
  })
  expect(await breakerStates(at.store, at.clock.nowMs())).toEqual([
    {
      providerId: P,
      phase: 'open',
      failures: 0,
      lastFailure: 'unreachable',
      openUntilMs: at.clock.nowMs() + 30_000,
      probing: false,
    },
  ])
})

test('allows exactly one call of a caller when the cooldown is over', async () => {
  const at = createDeps()
  await open(at)
  at.clock.advance(30_000)
  const answers = await Promise.all(Array.from({ length: 20 }, () => checkBreaker(at, P, null)))
  expect(answers.filter(({ admitted }) => admitted)).toHaveLength(1)
  expect(answers.filter((answer) => !answer.admitted && answer.phase === 'probing')).toHaveLength(19)
})

test('allows all calls after a successful probe', async () => {
  const at = createDeps()
  await open(at)
  at.clock.advance(30_000)
  const probe = await checkBreaker(at, P, null)
  await reportToBreaker(at, P, probe.admitted ? probe.probeId : '', { result: 'answered' })
  expect(await checkBreaker(at, P, null)).toEqual({ admitted: true, probeId: undefined })
  expect(await at.store.tables.breakers.list()).toEqual([])
})

test('a probe that is released unused makes way for the next', async () => {
  const at = createDeps()
  await open(at)
  at.clock.advance(30_000)
  const first = await checkBreaker(at, P, null)
  await reportToBreaker(at, P, first.admitted ? first.probeId : '', { result: 'released' })
  expect(await checkBreaker(at, P, null)).toMatchObject({ admitted: true, probeId: expect.any(String) })
})

test('ends a dead process’s probe at once, but not a living one’s', async () => {
  const at = createDeps()
  await open(at)
  at.clock.advance(30_000)
  await checkBreaker({ ...at, owner: deadOwner(at.owner) }, P, null)
  const next = await checkBreaker(at, P, null)
  expect(next).toMatchObject({ admitted: true, probeId: expect.any(String) })
  expect(await checkBreaker(at, P, null)).toMatchObject({ admitted: false, phase: 'probing' })
})

test('a probe with an unknown process is lost after its lease', async () => {
  const at = createDeps()
  await open(at)
  at.clock.advance(30_000)
  await checkBreaker({ ...at, owner: { ...at.owner, pidNamespace: 'elsewhere' } }, P, null)
  at.clock.advance(CALL_MS_MAX - 1)
  expect(await checkBreaker(at, P, null)).toMatchObject({ admitted: false })
  at.clock.advance(1)
  expect(await checkBreaker(at, P, null)).toMatchObject({ admitted: true })
})

test('ignores the late report of a probe that was replaced', async () => {
  const at = createDeps()
  await open(at)
  at.clock.advance(30_000)
  const lost = await checkBreaker({ ...at, owner: deadOwner(at.owner) }, P, null)
  const current = await checkBreaker(at, P, null)
  await reportToBreaker(at, P, lost.admitted ? lost.probeId : '', { result: 'answered' })
  expect(await checkBreaker(at, P, null)).toMatchObject({ admitted: false, phase: 'probing' })
  await reportToBreaker(at, P, current.admitted ? current.probeId : '', ILL)
  expect(await checkBreaker(at, P, null)).toMatchObject({
    phase: 'open',
    retryAtMs: at.clock.nowMs() + 60_000,
  })
})

test('a manual reset ends a cooldown at once, and later reports of a probe change nothing', async () => {
  const at = createDeps()
  await open(at)
  at.clock.advance(30_000)
  const probe = await checkBreaker(at, P, null)
  await at.store.write(breakerReset, { providerId: P, operator: 'local-user:test' })
  expect(await checkBreaker(at, P, null)).toEqual({ admitted: true, probeId: undefined })
  await reportToBreaker(at, P, probe.admitted ? probe.probeId : '', ILL)
  expect(await at.store.tables.breakers.list()).toEqual([])
  await expect(
    at.store.write(breakerReset, { providerId: P, operator: 'local-user:test' }),
  ).rejects.toMatchObject({ code: 'conflict' })
  expect(await at.store.bodies()).toMatchObject([{ operation: 'reset_breaker', operator: 'local-user:test' }])
})

const idOf = (turn: BreakerAdmission) => (turn.admitted ? turn.probeId : undefined)

test('no caller’s probe blocks another caller, however long it lasts or how often it is repeated', async () => {
  const at = createDeps()
  await open(at)
  at.clock.advance(30_000)
  for (let n = 0; n < 3; n++) {
    const hostile = await checkBreaker(at, P, 'hostile')
    await reportToBreaker(at, P, idOf(hostile), { result: 'released' })
  }
  await checkBreaker(at, P, 'hostile')
  expect(await checkBreaker(at, P, 'hostile')).toMatchObject({ admitted: false, phase: 'probing' })
  expect(await checkBreaker(at, P, null)).toMatchObject({ admitted: true, probeId: expect.any(String) })
  const other = await checkBreaker(at, P, 'other')
  expect(other).toMatchObject({ admitted: true, probeId: expect.any(String) })
  await reportToBreaker(at, P, idOf(other), { result: 'answered' })
  expect(await checkBreaker(at, P, 'hostile')).toEqual({ admitted: true, probeId: undefined })
  expect(await at.store.tables.breakers.list()).toEqual([])
})

test('probes that fail together double the cooldown once', async () => {
  const at = createDeps()
  await open(at)
  at.clock.advance(30_000)
  const probes = await Promise.all(['a', 'b', 'c'].map((caller) => checkBreaker(at, P, caller)))
  for (const probe of probes) await reportToBreaker(at, P, idOf(probe), ILL)
  expect(await checkBreaker(at, P, 'a')).toMatchObject({
    phase: 'open',
    openUntilMs: at.clock.nowMs() + 60_000,
  })
  expect(await at.store.tables.breakers.list()).toMatchObject([{ openings: 2, probes: [] }])
})

test('one caller’s failed probe does not discard another’s success', async () => {
  const at = createDeps()
  await open(at)
  at.clock.advance(30_000)
  const [failing, answered] = [await checkBreaker(at, P, 'hostile'), await checkBreaker(at, P, 'other')]
  await reportToBreaker(at, P, idOf(failing), ILL)
  await reportToBreaker(at, P, idOf(answered), { result: 'answered' })
  expect(await checkBreaker(at, P, 'third')).toEqual({ admitted: true, probeId: undefined })
})

test('a probe from before the last cooldown does not block its caller’s next one', async () => {
  const at = createDeps()
  await open(at)
  at.clock.advance(30_000)
  const [slow, failing] = [await checkBreaker(at, P, 'slow'), await checkBreaker(at, P, 'other')]
  await reportToBreaker(at, P, idOf(failing), ILL)
  at.clock.advance(60_000)
  expect(await checkBreaker(at, P, 'slow')).toMatchObject({ admitted: true, probeId: expect.any(String) })
  await reportToBreaker(at, P, idOf(slow), ILL)
  expect(await breakerStates(at.store, at.clock.nowMs())).toMatchObject([{ phase: 'half_open' }])
})

test('in a row of an earlier version, a probe without a caller counts as the operator’s own', async () => {
  const at = createDeps()
  await open(at)
  at.clock.advance(30_000)
  const { bootId, pid, startedAt, pidNamespace } = at.owner
  at.store.database
    .prepare(`UPDATE provider_breakers SET probe_id = 'probe_old', probe_boot_id = ?, probe_pid = ?,
      probe_started_at = ?, probe_pid_namespace = ?, probe_since_ms = ?`)
    .run(bootId, pid, startedAt, pidNamespace, at.clock.nowMs())
  expect(await checkBreaker(at, P, null)).toMatchObject({ admitted: false, phase: 'probing' })
  expect(await checkBreaker(at, P, 'other')).toMatchObject({ admitted: true, probeId: expect.any(String) })
  await reportToBreaker(at, P, 'probe_old', { result: 'answered' })
  expect(await at.store.tables.breakers.list()).toEqual([])
})
