import fc from 'fast-check'
import { expect, test } from 'vitest'
import { NETWORKS } from '../backend.ts'
import { deniedOperationError } from './denied-operation.ts'
import { type ExplicitFields, refuseExplicitFields } from './explicit-fields.ts'
import { ADA_USER, approveCreate, creation, LifecycleStore } from './lifecycle.fixture.ts'
import { beginCreate } from './tokens.ts'

const WHOLE: ExplicitFields = {
  network: 'none',
  mounts: { all: 0, writable: 0 },
  image: true,
  environment: true,
  workspace: true,
}

const anything: fc.Arbitrary<ExplicitFields> = fc.record({
  network: fc.constantFrom(null, ...NETWORKS),
  mounts: fc.option(fc.record({ all: fc.nat(8), writable: fc.nat(8) })),
  image: fc.boolean(),
  environment: fc.boolean(),
  workspace: fc.boolean(),
})

test('policy decides about a container only when its request sets every field and asks for nothing that is never allowed', () => {
  fc.assert(
    fc.property(anything, (fields) => {
      const isWhole =
        fields.network === 'none' &&
        fields.mounts?.writable === 0 &&
        fields.image &&
        fields.environment &&
        fields.workspace
      expect(refuseExplicitFields('docker', fields) === undefined).toBe(isWhole)
    }),
  )
})

test('the refusal names every missing field', () => {
  const refuseFields = (changes: Partial<ExplicitFields>) =>
    refuseExplicitFields('docker', { ...WHOLE, ...changes })
  expect(refuseExplicitFields('docker', undefined)).toEqual({
    rule: 'sandbox.request_incomplete',
    fields: ['network', 'mounts', 'container.image', 'environment', 'workspace'],
  })
  expect(refuseFields({ mounts: null, image: false })?.fields).toEqual(['mounts', 'container.image'])
  expect(refuseFields({ network: 'bridge' })).toEqual({ rule: 'sandbox.network', fields: ['network'] })
  expect(refuseFields({ network: 'restricted' })?.rule).toBe('sandbox.network')
  expect(refuseFields({ mounts: { all: 2, writable: 1 } })).toEqual({
    rule: 'sandbox.mount',
    fields: ['mounts'],
  })
})

test('a process sandbox has defaults, and no network either', () => {
  expect(refuseExplicitFields('process', undefined)).toBeUndefined()
  expect(
    refuseExplicitFields('process', { ...WHOLE, network: null, mounts: null, image: false }),
  ).toBeUndefined()
  expect(refuseExplicitFields('process', { ...WHOLE, network: 'bridge' })?.rule).toBe('sandbox.network')
})

test('a request with a missing field is denied with a receipt, whatever grants exist', async () => {
  const { store, clock } = new LifecycleStore()
  const { grant } = await approveCreate(store, clock, { operator: ADA_USER, name: 'box' })
  const stated = { ...WHOLE, network: null }
  const answer = await store.write(
    beginCreate,
    creation({ name: 'box', backend: 'docker', isolation: 'container', stated, grantId: grant.id }),
  )
  if (answer.effect !== 'denied') throw new Error('it was allowed')
  const bodies = await store.bodies()
  expect(bodies.at(-1)).toMatchObject({
    kind: 'denial',
    status: 'denied',
    capability: 'sandbox.create',
    target: 'sandbox/box',
    decision: { effect: 'deny', rule: 'sandbox.request_incomplete' },
    metadata: { fields: ['network'] },
  })
  expect(deniedOperationError(answer)).toMatchObject({
    code: 'denied',
    hint: expect.stringContaining('network'),
    details: { rule: 'sandbox.request_incomplete', fields: ['network'], receipt_id: answer.ref.id },
  })
  expect(await store.tables.sandboxes.list({}, 10)).toEqual([])
  expect((await store.tables.grants.get(grant.id))?.usesLeft).toBe(1)
})
