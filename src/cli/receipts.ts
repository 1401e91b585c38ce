/** `craik receipts`: lists, verifies and exports the records of all decisions. */
import { Command } from 'commander'
import type { CliContext } from './context.ts'
import { listReceiptsCommand, showReceiptCommand, tailCommand } from './receipts/list.ts'
import {
  checkpointCommand,
  consistencyCommand,
  exportReceiptsCommand,
  keyCommand,
  proveCommand,
} from './receipts/proofs.ts'
import { verifyReceiptsCommand } from './receipts/verify.ts'

export function receiptsCommand(context: CliContext): Command {
  const receipts = new Command('receipts')
  for (const build of [
    listReceiptsCommand,
    showReceiptCommand,
    tailCommand,
    verifyReceiptsCommand,
    exportReceiptsCommand,
    proveCommand,
    consistencyCommand,
    checkpointCommand,
    keyCommand,
  ]) {
    receipts.addCommand(build(context))
  }
  return receipts
}
