/** All tables over one connection. */
import type { DatabaseSync } from 'node:sqlite'
import type { Tables } from '../store.ts'
import { logKeyTable, openReceiptTable, receiptTable, treeTable } from './receipts.ts'
import { commandTable, documentTable, envelopeTable, grantTable, secretTable } from './records.ts'

export function tablesOver(database: DatabaseSync): Tables {
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
  }
}
