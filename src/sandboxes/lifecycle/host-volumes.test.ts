import { describe, expect, it } from 'vitest'
import { createGrant } from '../../policy/grants.ts'
import { beginDeleteVolume, endDeleteVolume } from '../volumes/tokens.ts'
import { deniedOperationError } from './denied-operation.ts'
import { ADA_USER, approveCreate, BOB, creation, LifecycleStore, ME } from './lifecycle.fixture.ts'
import { beginCreate, beginDelete, endCreate, endDelete } from './tokens.ts'

const VOLUMES = [
  { name: 'ada-llm', at: '.config/llm-state' },
  { name: 'ada-tools', at: '.local' },
]
const USE = { capability: 'sandbox.mount', operation: 'volume' }
const DELETE = { capability: 'sandbox.delete', operation: 'delete_volume' }

class VolumeStore extends LifecycleStore {
  async allow(target: string, { capability, operation }: typeof USE, subject = ADA_USER) {
    const terms = { subject, scope: 'any' as const, max_uses: 1, approved_by: subject }
    const requested = { capability, operations: [operation], target: { ref: target }, ...terms }
    return (await createGrant(this.store, requested)).grant
  }

  async create(volumes = VOLUMES, operator = ADA_USER) {
    await approveCreate(this.store, this.clock, { operator })
    for (const { name } of volumes) await this.allow(`volume/${name}`, USE, operator)
    return this.store.write(beginCreate, creation({ volumes, operator }))
  }

  async running(volumes: typeof VOLUMES) {
    for (const { name } of volumes) await this.allow(`volume/${name}`, USE)
    return this.sandbox({ volumes })
  }

  delete(name: string) {
    return this.store.write(beginDeleteVolume, { name, operator: ADA_USER, owner: ME })
  }
}

describe('a volume', () => {
  it('needs a grant of its own, which the denial names, and the receipt says which volume', async () => {
    const test = new VolumeStore()
    await approveCreate(test.store, test.clock, { operator: ADA_USER })
    await test.allow('volume/ada-llm', USE)
    const answer = await test.store.write(beginCreate, creation({ volumes: VOLUMES }))
    if (answer.effect !== 'denied') throw new Error('it was allowed')
    expect(deniedOperationError(answer)).toMatchObject({
      code: 'denied',
      hint: expect.stringMatching(/--capability sandbox\.mount .*--operation volume .*volume\/ada-tools/),
    })
    expect((await test.store.bodies()).at(-1)).toMatchObject({
      kind: 'denial',
      capability: 'sandbox.mount',
      operation: 'volume',
      target: 'volume/ada-tools',
    })
    expect(await test.store.tables.sandboxes.list({}, 10)).toEqual([])
  })

  it('is recorded with the sandbox, and has a receipt that the creation names', async () => {
    const test = new VolumeStore()
    expect(await test.create()).toMatchObject({ effect: 'allowed', record: { spec: { volumes: VOLUMES } } })
    const bodies = await test.store.bodies()
    const provided = bodies.filter(
      ({ capability, phase }) => capability === USE.capability && phase === 'begin',
    )
    expect(provided.map(({ target }) => target)).toEqual(['volume/ada-llm', 'volume/ada-tools'])
    expect(
      bodies.find(({ phase, capability }) => phase === 'begin' && capability === 'sandbox.create'),
    ).toMatchObject({
      links: { receipt_ids: provided.map(({ id }) => id) },
      metadata: { volumes: ['ada-llm', 'ada-tools'] },
    })
  })

  it('belongs to one sandbox until that is deleted, and to none whose creation failed', async () => {
    const test = new VolumeStore()
    const first = await test.create()
    if (first.effect !== 'allowed') throw new Error('it was denied')
    const one = [VOLUMES[1]!]
    await expect(test.create(one, BOB)).rejects.toMatchObject({
      code: 'conflict',
      message: `the volume ada-tools belongs to sandbox ${first.record.name}`,
    })
    await test.store.write(endCreate, { id: first.record.id, status: 'failed' })
    const second = await test.running(one)
    await expect(test.create(one)).rejects.toMatchObject({ code: 'conflict' })
    const leaving = { id: second.id, operator: ADA_USER, owner: ME }
    expect(await test.store.write(beginDelete, leaving)).toMatchObject({ effect: 'allowed' })
    await expect(test.create(one)).rejects.toMatchObject({ code: 'conflict' })
    await test.store.write(endDelete, { id: second.id, status: 'passed' })
    expect(await test.create(one)).toMatchObject({ effect: 'allowed' })
  })

  it('is deleted only with a grant for it, and never while a sandbox has it', async () => {
    const test = new VolumeStore()
    await test.allow('volume/ada-llm', DELETE)
    expect(await test.delete('ada-tools')).toMatchObject({ effect: 'denied' })
    const made = await test.create()
    if (made.effect !== 'allowed') throw new Error('it was denied')
    await expect(test.delete('ada-llm')).rejects.toMatchObject({ code: 'conflict' })
    await test.store.write(endCreate, { id: made.record.id, status: 'failed' })
    const answer = await test.delete('ada-llm')
    if (answer.effect !== 'allowed') throw new Error('it was denied')
    await test.store.write(endDeleteVolume, { begun: answer.begun, status: 'passed' })
    expect((await test.store.bodies()).at(-1)).toMatchObject({
      ...DELETE,
      target: 'volume/ada-llm',
      phase: 'end',
      status: 'passed',
    })
    expect(await test.delete('ada-llm')).toMatchObject({ effect: 'denied' })
  })
})
