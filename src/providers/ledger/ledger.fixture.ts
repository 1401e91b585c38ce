/**
 * The setting of the ledger tests: a store with an envelope, a call that fits it, and owners that are alive or dead.
 */
import { spawnSync } from 'node:child_process'
import type { InProcessStore } from '../../../test/in-process-store.ts'
import { currentOwner, type Owner } from '../../lib/owner.ts'
import { grantIn, POLICY_OPERATOR, storeWith, type TestClock } from '../../policy/policy.fixture.ts'
import { Sealer } from '../../receipts/sealer.ts'
import { type LogReplay, replayLog } from '../../run/replay-log.ts'
import type { Usage } from '../conversation.ts'
import { type BudgetTerms, removeBudgetProcedure, setBudget, setQuota } from './budgets-and-quotas.ts'
import { sweepDead } from './sweep.ts'
import { type AdmitInput, type AdmitOutput, admitCall, type Price, settleCall } from './tokens.ts'

export const LEDGER_PROVIDER = 'provider_openai'
export const USD = 1_000_000_000

/** $1 for a million input tokens, $10 for a million output tokens. */
const PRICE: Price = {
  inputNanoUsdPerMtok: 1 * USD,
  cacheReadNanoUsdPerMtok: USD / 10,
  cacheWriteNanoUsdPerMtok: (USD * 5) / 4,
  outputNanoUsdPerMtok: 10 * USD,
}

export type Call = AdmitInput['call']
export type Allowed = Extract<AdmitOutput, { effect: 'allow' }>

export interface Ledger {
  readonly store: InProcessStore
  readonly clock: TestClock
  budget(terms?: Partial<BudgetTerms>): Promise<string>
  quota(terms?: Record<string, number | string | null>): Promise<string>
  removeBudget(id: string): Promise<unknown>
  /** `target` is the target of the request that policy evaluates. */
  admit(call?: Partial<Call>, owner?: Owner, session?: string, target?: string): Promise<AdmitOutput>
  admitAllowed(call?: Partial<Call>, owner?: Owner, session?: string): Promise<Allowed>
  settle(allowed: Allowed, usage: Usage | 'nothing'): ReturnType<InProcessStore['write']>
  /** Sweeps the holds, as another process does when it starts. */
  sweep(): Promise<void>
  /** Ends the receipts that have no end, as another process does before it sweeps. */
  closeDead(): Promise<void>
}

/** The grant has a million uses by default. With `null`, there is no grant. */
export async function openLedger(uses: number | null = 1_000_000): Promise<Ledger> {
  const { store, clock } = await storeWith('automation')
  const grant_id =
    uses === null
      ? undefined
      : await grantIn(
          store,
          {
            capability: 'model.chat',
            operations: ['chat'],
            target: { ref: LEDGER_PROVIDER },
            max_uses: uses,
          },
          clock.nowMs() + 365 * 86_400_000,
        )
  const admit: Ledger['admit'] = (call = {}, owner = store.log.owner, session = 'agent_1', target) => {
    const input = admitInput({ ...CALL, ...call }, owner, grant_id, session)
    return store.write(admitCall, { ...input, request: { ...input.request, ...(target && { target }) } })
  }
  const elsewhere = async (work: (sealer: Sealer) => Promise<void>) => {
    store.database.exec('BEGIN IMMEDIATE')
    await work(new Sealer(store.home, clock))
    store.database.exec('COMMIT')
  }
  return {
    store,
    clock,
    async budget(terms = {}) {
      const { row } = await setBudget(store, { ...BUDGET, ...terms }, POLICY_OPERATOR)
      return row.id
    },
    async quota(terms = {}) {
      const { row } = await setQuota(store, { ...QUOTA, ...terms }, POLICY_OPERATOR)
      return row.id
    },
    removeBudget: (id) => store.write(removeBudgetProcedure, { id, operator: POLICY_OPERATOR }),
    admit,
    async admitAllowed(call, owner, session) {
      const output = await admit(call, owner, session)
      if (output.effect === 'deny')
        throw new Error(`denied: ${output.by === 'policy' ? output.decision.evaluation.rule : output.rule}`)
      return output
    },
    settle: ({ hold, ref, begin }, usage) =>
      store.write(settleCall, {
        holdId: hold.id,
        open: { ref, begin },
        end: { status: 'passed' },
        result: usage === 'nothing' ? { kind: 'nothing' } : { kind: 'spent', usage },
      }),
    sweep: () => elsewhere((sealer) => sweepDead(store.tables, sealer, clock)),
    closeDead: () => elsewhere((sealer) => sealer.closeDead(store.tables)),
  }
}

const CALL: Call = {
  providerId: LEDGER_PROVIDER,
  model: 'gpt-test',
  billing: 'metered',
  price: PRICE,
  inputBytes: 1000,
  maxOutputTokens: 2000,
  capCanBeSet: true,
}

const BUDGET: BudgetTerms = {
  scope_kind: 'provider',
  scope_ref: LEDGER_PROVIDER,
  period: 'day',
  limit_nano_usd: 2 * USD,
  limit_tokens: null,
  allow_unpriced: false,
}

const QUOTA = {
  scope_kind: 'provider',
  scope_ref: LEDGER_PROVIDER,
  requests_per_minute: null,
  tokens_per_minute: null,
  concurrent: null,
}

/** Returns a call that costs one nano-dollar per output token, and nothing for input. */
export function nanoUsdCall(maxOutputTokens: number): Call {
  return {
    ...CALL,
    price: {
      inputNanoUsdPerMtok: 0,
      cacheReadNanoUsdPerMtok: 0,
      cacheWriteNanoUsdPerMtok: 0,
      outputNanoUsdPerMtok: 1_000_000,
    },
    inputBytes: 100,
    maxOutputTokens,
  }
}

export function admitInput(
  call: Call,
  owner: Owner,
  grantId: string | undefined,
  session: string,
): AdmitInput {
  return {
    request: {
      operator: POLICY_OPERATOR,
      capability: 'model.chat',
      operation: 'chat',
      target: call.providerId,
      scope: { task_id: 'task-1', session_id: session },
      policy_envelope_id: 'policy_task-1',
      ...(grantId !== undefined && { grant_id: grantId }),
    },
    receipt: { kind: 'provider_action', links: { provider_id: call.providerId } },
    owner,
    call,
  }
}

export function measuredUsage(inputTokens: number, outputTokens: number): Usage {
  return { source: 'measured', inputTokens, cacheReadTokens: 0, cacheWriteTokens: 0, outputTokens }
}

/** Returns the owner of a process that has exited. */
export function deadOwner(): Owner {
  const { pid } = spawnSync(process.execPath, ['-e', '0'])
  return { ...currentOwner(), pid, startedAt: '1' }
}

/** Replays the log as an auditor does. The policy documents come from their own table. */
export function replayAll({ store }: Pick<Ledger, 'store'>, from = 0): Promise<LogReplay> {
  async function* lines(): AsyncGenerator<string> {
    for (const { digest, text } of await store.tables.documents.list())
      yield JSON.stringify({ _document: { digest, text } })
    for (const { line } of await store.tables.receipts.scan(from, 1_000_000)) yield line
  }
  return replayLog(lines(), async () => {})
}
