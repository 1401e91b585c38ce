/** All tables over one connection. */
import type { DatabaseSync } from 'node:sqlite'
import type { Tables } from '../store.ts'
import {
  agentEventTable,
  createSealedTable,
  handoffTable,
  loginTable,
  runTable,
  sessionTable,
} from './agents.ts'
import { breakerTable } from './breakers.ts'
import { commandTable, documentTable, envelopeTable, grantTable, secretTable } from './document-tables.ts'
import { budgetTable, holdTable, quotaTable, quotaUseTable } from './ledger.ts'
import { providerSettingTable } from './providers.ts'
import { logKeyTable, openReceiptTable, receiptTable, treeTable } from './receipts.ts'
import { boundaryEpochTable, sandboxJobTable, sandboxTable } from './sandboxes.ts'

export function createTables(database: DatabaseSync): Tables {
  return {
    receipts: receiptTable(database),
    tree: treeTable(database),
    openReceipts: openReceiptTable(database),
    logKeys: logKeyTable(database),
    documents: documentTable(database),
    envelopes: envelopeTable(database),
    grants: grantTable(database),
    secrets: secretTable(database),
    commands: commandTable(database),
    providerSettings: providerSettingTable(database),
    budgets: budgetTable(database),
    holds: holdTable(database),
    quotas: quotaTable(database),
    quotaUses: quotaUseTable(database),
    breakers: breakerTable(database),
    logins: loginTable(database),
    sessions: sessionTable(database),
    runs: runTable(database),
    handoffs: handoffTable(database),
    agentEvents: agentEventTable(database),
    sandboxes: sandboxTable(database),
    sandboxJobs: sandboxJobTable(database),
    boundaryEpochs: boundaryEpochTable(database),
    snapshots: createSealedTable<'name'>(database, 'snapshots'),
    warmInstances: createSealedTable<never>(database, 'warm_places'),
    promptRuns: createSealedTable<'status' | 'sandbox_id'>(database, 'prompt_runs'),
    egressRules: createSealedTable<'operator' | 'scope'>(database, 'egress_rules'),
  }
}
