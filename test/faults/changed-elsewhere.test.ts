/** A change by another process applies to the very next call, even if a running writer has cached the old rows. */
import { DatabaseSync } from 'node:sqlite'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { createEnvelope } from '../../src/policy/envelope.ts'
import { createGrant } from '../../src/policy/grants.ts'
import { envelopeFor, POLICY_OPERATOR, TERMS } from '../../src/policy/policy.fixture.ts'
import { readBuiltInPolicy } from '../../src/policy/profiles.ts'
import { admitInput, nanoUsdCall } from '../../src/providers/ledger/ledger.fixture.ts'
import { type AdmitOutput, admitCall } from '../../src/providers/ledger/tokens.ts'
import { homeAt } from '../../src/store/home.ts'
import { TestHome } from '../craik.ts'
import { openLog } from './log.ts'

const TOKENS = 100

let home: TestHome
let opened: Awaited<ReturnType<typeof openLog>>
let grantId: string

beforeEach(async () => {
  home = new TestHome()
  opened = await openLog(home.home)
  await createEnvelope(opened.store, await envelopeFor('automation'), readBuiltInPolicy('automation'), {
    operator: POLICY_OPERATOR,
  })
  const { grant } = await createGrant(opened.store, {
    ...TERMS,
    capability: 'model.chat',
    operations: ['chat'],
    target: { ref: 'provider_openai' },
    max_uses: null,
  })
  grantId = grant.id
  // The writer has now read every row that a decision needs.
  for (let n = 0; n < 3; n++) expect(await ask()).toMatchObject({ effect: 'allow' })
})

afterEach(async () => {
  await opened.store.close()
  home[Symbol.dispose]()
})

const ask = (): Promise<AdmitOutput> =>
  opened.store.write(admitCall, admitInput(nanoUsdCall(TOKENS), opened.log.owner, grantId, 'agent_1'))

async function craik(...args: string[]): Promise<void> {
  expect(await home.run(args)).toMatchObject({ code: 0, stderr: '' })
}

/** Edits the database as any program with access to the file could. */
function edit(sql: string): void {
  using database = new DatabaseSync(homeAt(home.home).database, { timeout: 10_000 })
  database.exec(sql)
}

it('a revoked grant allows nothing', async () => {
  await craik('grant', 'revoke', grantId)
  expect(await ask()).toMatchObject({
    effect: 'deny',
    by: 'policy',
    decision: { evaluation: { grantOutcome: 'revoked' } },
  })
})

it('a budget applies to the next call after it is set, lowered or removed', async () => {
  await craik('budget', 'set', '--id', 'team', '--provider', 'provider_openai', '--tokens', '100000')
  expect(await ask()).toMatchObject({ effect: 'allow' })
  await craik('budget', 'set', '--id', 'team', '--provider', 'provider_openai', '--tokens', '1')
  expect(await ask()).toMatchObject({ effect: 'deny', by: 'budget', rule: 'budget.exhausted' })
  await craik('budget', 'remove', 'team')
  expect(await ask()).toMatchObject({ effect: 'allow' })
})

it('a new quota counts the calls before it', async () => {
  await craik('quota', 'set', '--provider', 'provider_openai', '--requests-per-minute', '3')
  expect(await ask()).toMatchObject({ effect: 'deny', by: 'quota', rule: 'quota.requests_per_minute' })
})

it('a policy that differs from the one that its envelope names decides nothing', async () => {
  edit(`UPDATE documents SET text = text || ' ' WHERE media_type = 'text/cedar'`)
  expect(await ask()).toMatchObject({ by: 'policy', decision: { evaluation: { rule: 'policy.error' } } })
})

it('a deleted envelope allows nothing', async () => {
  edit('DELETE FROM envelopes')
  expect(await ask()).toMatchObject({
    by: 'policy',
    decision: { evaluation: { rule: 'control.policy_envelope' } },
  })
})
