/**
 * Runs the gateway as the supervisor does: with a real store, policy, grant, a budget that applies, and durable
 * receipts.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import type { GatewayCaller } from '../src/gateway/caller.ts'
import { createGateway } from '../src/gateway/server.ts'
import { systemClock } from '../src/lib/clock.ts'
import { buildEnvelope, createEnvelope } from '../src/policy/envelope.ts'
import { createGrant } from '../src/policy/grants.ts'
import { readBuiltInPolicy } from '../src/policy/profiles.ts'
import { setBudget } from '../src/providers/ledger/budgets-and-quotas.ts'
import { createReceiptLog } from '../src/receipts/receipt-log.ts'
import { homeAt } from '../src/store/home.ts'
import { openSqliteStore } from '../src/store/sqlite/sqlite-store.ts'
import { listen } from './gateway-process.ts'

const [upstream, folder] = process.argv.slice(2) as [string, string]
const OPERATOR = 'local-user:bench'
const PROVIDER = 'provider_bench'
const SANDBOX = 'sandbox_bench'
const home = homeAt(folder)
const store = await openSqliteStore(home, new URL('../src/writer.ts', import.meta.url))
const log = createReceiptLog(store, systemClock)
mkdirSync(join(home.config, 'providers'), { recursive: true, mode: 0o700 })
const record = {
  schema: 'craik.model_provider',
  version: '0.1.0',
  id: PROVIDER,
  name: 'bench',
  provider: 'anthropic',
  modes: ['chat'],
  capabilities: [{ name: 'model.chat', mode: 'chat', description: 'answer' }],
  trust_boundary: 'self-hosted',
  secret_ref_names: ['BENCH_KEY'],
  metadata: { base_url: `${upstream}/v1`, default_model: 'm' },
  docs: ['docs/reference/providers.md'],
  created_at: '2026-01-01T00:00:00Z',
}
writeFileSync(join(home.config, 'providers', 'bench.json'), JSON.stringify(record), { mode: 0o600 })
const text = readBuiltInPolicy('automation')
const envelope = buildEnvelope({
  id: 'policy_bench',
  taskId: null,
  actor: OPERATOR,
  profile: 'automation',
  policyText: text,
  nowMs: systemClock.nowMs(),
})
await createEnvelope(store, envelope, text, { operator: OPERATOR })
const { grant } = await createGrant(store, {
  capability: 'model.chat',
  subject: OPERATOR,
  scope: { sandbox_id: SANDBOX },
  target: { ref: PROVIDER },
  operations: ['chat'],
  approved_by: OPERATOR,
  max_uses: null,
})
const limits = { limit_nano_usd: null, limit_tokens: 1e14, allow_unpriced: false }
await setBudget(store, { scope_kind: 'total', scope_ref: null, period: 'day', ...limits }, OPERATOR)

const gateway = createGateway({
  deps: {
    store,
    log,
    home,
    clock: systemClock,
    environment: {},
    credential: async () => Buffer.from('bench-key-0123456789'),
  },
  broker: {
    accounts: async () => [],
    credential: () => Promise.reject(new Error('no logins here')),
    renewAfterRefusal: async () => undefined,
  },
  report: (error) => console.error(error),
  limits: { connections: 1000, requests: 1000 },
})
const caller: GatewayCaller = {
  operator: OPERATOR,
  policyEnvelopeId: 'policy_bench',
  sandboxId: SANDBOX,
  scope: {},
  credentials: 'broker',
  sentinelFor: () => undefined,
  grantFor: async () => grant.id,
}
await listen(createServer((socket) => gateway.handle(socket.setNoDelay(true), caller)))
