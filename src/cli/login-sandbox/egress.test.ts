import { beforeEach, describe, expect, it } from 'vitest'
import { listRules } from '../../gateway/egress/rule-reader.ts'
import type { EgressRule } from '../../gateway/egress/rules.ts'
import { addRule } from '../../gateway/egress/tokens.ts'
import type { SandboxBody } from '../../operator/api/bodies.ts'
import { revokeGrant } from '../../policy/grants.ts'
import { ADA_USER, LifecycleStore } from '../../sandboxes/lifecycle/lifecycle.fixture.ts'
import type { CliContext } from '../context.ts'
import { allowPresets, ownRules } from './egress.ts'

const HOUR_MS = 3600_000

let scene: LifecycleStore
let context: CliContext
let sandbox: SandboxBody
beforeEach(async () => {
  scene = new LifecycleStore()
  const { store, clock } = scene
  context = {
    home: store.home,
    clock,
    store: async () => store,
    operator: async () => ADA_USER,
  } as unknown as CliContext
  const { id } = await scene.sandbox({ name: 'octo-sandbox' })
  sandbox = { id } as unknown as SandboxBody
})

async function rules(): Promise<readonly EgressRule[]> {
  return (await listRules(scene.store, scene.store.home, { operator: ADA_USER, sandboxId: sandbox.id })).rules
}

async function allowFor(ms: number, sandboxId: string | null): Promise<EgressRule> {
  const { rule } = await scene.store.write(addRule, {
    hosts: ['registry.npmjs.org'],
    ports: [443],
    methods: null,
    path: null,
    preset: 'npm',
    operator: ADA_USER,
    sandboxId,
    approvedBy: ADA_USER,
    expiresAtMs: scene.clock.nowMs() + ms,
  })
  return rule
}

describe('allowPresets', () => {
  it('adds each preset once', async () => {
    await allowPresets(context, sandbox, ['npm', 'pypi'])
    await allowPresets(context, sandbox, ['npm', 'pypi'])
    expect((await rules()).map(({ preset }) => preset).toSorted()).toEqual(['npm', 'pypi'])
  })

  it.each([
    ['of this sandbox', true],
    ['of all sandboxes', false],
  ])('adds a preset again if its rule %s has expired', async (_, isOwn) => {
    const expired = await allowFor(HOUR_MS, isOwn ? sandbox.id : null)
    await allowPresets(context, sandbox, ['npm'])
    expect(await rules()).toEqual([expired])
    scene.clock.advance(HOUR_MS)
    await allowPresets(context, sandbox, ['npm'])
    expect(await ownRules(context, sandbox)).toMatchObject([{ preset: 'npm', effect: 'allow' }])
  })

  it('adds a preset again if the grant of its rule was revoked', async () => {
    await allowPresets(context, sandbox, ['npm'])
    const [revoked] = await ownRules(context, sandbox)
    await revokeGrant(scene.store, revoked!.grant_id!, ADA_USER)
    expect(await ownRules(context, sandbox)).toEqual([])
    await allowPresets(context, sandbox, ['npm'])
    const [again] = await ownRules(context, sandbox)
    expect(again).toMatchObject({ preset: 'npm' })
    expect(again!.id).not.toBe(revoked!.id)
  })
})
