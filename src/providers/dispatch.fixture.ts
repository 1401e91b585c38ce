/** A place to call models from: the real tables and procedures, a clock of its own, keys that lie in memory. */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type InProcessStore, inProcessStore } from '../../test/in-process-store.ts'
import { tempFolder } from '../../test/temp-folder.ts'
import { startChatCompletions } from '../../test/wire/chat-completions.ts'
import type { Act } from '../../test/wire/wire-server.ts'
import { buildEnvelope, createEnvelope } from '../policy/envelope.ts'
import { createGrant } from '../policy/grants.ts'
import { POLICY_OPERATOR, TestClock } from '../policy/policy.fixture.ts'
import { readBuiltInPolicy } from '../policy/profiles.ts'
import type { Receipt } from '../receipts/schema.ts'
import { unknownSecret } from '../secrets/secret.ts'
import { homeAt } from '../store/home.ts'
import { callModel } from './dispatch.ts'
import type { ModelCall, ModelOutcome, ProviderDeps } from './dispatch-types.ts'
import { listBudgets, setBudget } from './ledger/budgets-and-quotas.ts'
import { enableProcedure } from './provider-settings.ts'

const ENVELOPE = 'policy_team'
export const KEY = 'craik-test-key-3f9a7c21d8'

export const PROVIDER = {
  fixture: 'provider_fixture_local',
  openai: 'provider_openai',
  anthropic: 'provider_anthropic',
  ollama: 'provider_local_ollama',
} as const

export interface CallScene extends AsyncDisposable {
  readonly place: ProviderDeps
  readonly store: InProcessStore
  readonly clock: TestClock
  /** The buffers that were handed out for credentials. */
  readonly credentials: Buffer[]
  configure(name: string, value: object): void
  enable(providerId: string, baseUrl: string): Promise<void>
  /** A provider of one's own at a loopback address, which takes a key and has no price that is known. */
  addProvider(id: string, family: 'openai' | 'anthropic', baseUrl: string): void
  /** Of the last call's own receipts, oldest first. */
  receiptsOf(outcome: ModelOutcome): Promise<readonly Receipt['body'][]>
}

export async function callScene(
  keys: Readonly<Record<string, string>> = { TEAM_API_KEY: KEY },
): Promise<CallScene> {
  const folder = tempFolder('craik-dispatch-')
  const home = homeAt(folder)
  const clock = new TestClock()
  const store = inProcessStore(clock)
  const text = readBuiltInPolicy('automation')
  const envelope = buildEnvelope({
    id: ENVELOPE,
    taskId: null,
    actor: POLICY_OPERATOR,
    profile: 'automation',
    policyText: text,
    nowMs: clock.nowMs(),
  })
  await createEnvelope(store, envelope, text, { operator: POLICY_OPERATOR })
  const credentials: Buffer[] = []
  const configure = (name: string, value: object) => {
    const path = join(home.config, name)
    mkdirSync(join(path, '..'), { recursive: true, mode: 0o700 })
    writeFileSync(path, JSON.stringify(value), { mode: 0o600 })
  }
  return {
    store,
    clock,
    credentials,
    place: {
      store,
      log: store.log,
      home,
      clock,
      environment: {},
      async credential(name) {
        const value = keys[name]
        if (value === undefined) throw unknownSecret(name)
        const buffer = Buffer.from(value)
        credentials.push(buffer)
        return buffer
      },
    },
    configure,
    addProvider(id, provider, base_url) {
      configure(`providers/${id}.json`, {
        schema: 'craik.model_provider',
        version: '0.1.0',
        id,
        name: id,
        provider,
        modes: ['chat'],
        capabilities: [{ name: 'model.chat', mode: 'chat', description: 'answer' }],
        trust_boundary: 'self-hosted',
        secret_ref_names: ['TEAM_API_KEY'],
        metadata: {
          base_url,
          default_model: `${provider}-model`,
          ...(provider === 'openai' && { dialect: 'chat_completions' }),
        },
        docs: ['docs/reference/providers.md'],
        created_at: '2026-01-01T00:00:00Z',
      })
    },
    async receiptsOf({ receiptIds }) {
      return (await store.bodies()).filter(({ id }) => receiptIds.includes(id))
    },
    async enable(providerId, baseUrl) {
      const setting = { operator: POLICY_OPERATOR, providerId, baseUrl, model: 'llama3.2', modelCount: 1 }
      await store.write(enableProcedure, setting)
    },
    async [Symbol.asyncDispose]() {
      await store.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** A call that policy allows: a grant for each provider that is asked. */
export async function modelCall(at: CallScene, changes: Partial<ModelCall> = {}): Promise<ModelCall> {
  return {
    operator: POLICY_OPERATOR,
    providerId: PROVIDER.ollama,
    transport: 'live',
    policyEnvelopeId: ENVELOPE,
    grantFor: async (providerId) => (await grantTo(at, providerId)).grant.id,
    scope: { session_id: 'session-1', task_id: 'task-1', run_id: 'run-1' },
    links: { handoff_id: 'handoff-1' },
    messages: [{ role: 'user', text: 'say hello' }],
    tools: [],
    maxOutputTokens: 2000,
    signal: new AbortController().signal,
    ...changes,
  }
}

function grantTo(at: CallScene, providerId: string) {
  return createGrant(at.store, {
    capability: 'model.chat',
    subject: POLICY_OPERATOR,
    scope: { run_id: 'run-1' },
    target: { ref: providerId },
    operations: ['chat'],
    approved_by: POLICY_OPERATOR,
  })
}

export const TEAM = 'provider_team'
export const HELLO = { kind: 'text', text: 'hello' } as const satisfies Act

/** A place, a server behind `provider_team`, and calls to it. */
export async function team(...script: Act[]) {
  const at = await callScene()
  const server = await startChatCompletions(script)
  at.addProvider(TEAM, 'openai', server.baseUrl)
  return {
    at,
    server,
    call: async (changes: Partial<ModelCall> = {}) =>
      callModel(at.place, await modelCall(at, { providerId: TEAM, ...changes })),
    async [Symbol.asyncDispose]() {
      await server.close()
      await at[Symbol.asyncDispose]()
    },
  }
}

/** So many tokens a day, for everything together. */
export function tokenBudget(at: CallScene, tokens: number) {
  const terms = {
    scope_kind: 'total',
    scope_ref: null,
    period: 'day',
    limit_nano_usd: null,
    limit_tokens: tokens,
    allow_unpriced: false,
  }
  return setBudget(at.store, terms, POLICY_OPERATOR)
}

/** In tokens, of the one budget there is. */
export async function balance(at: CallScene) {
  const [one] = await listBudgets(at.store, at.clock.nowMs())
  return { spent: one!.spent_tokens, held: one!.held_tokens }
}
