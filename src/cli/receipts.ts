/** `craik receipts …`: the record of every decision. */
import { Command } from 'commander'
import type { CliContext } from './context.ts'
import { listCommand, showCommand, tailCommand } from './receipts/list.ts'
import {
  checkpointCommand,
  consistencyCommand,
  exportCommand,
  keyCommand,
  proveCommand,
} from './receipts/proofs.ts'
import { verifyCommand } from './receipts/verify.ts'

export function receiptsCommand(context: CliContext): Command {
  const receipts = new Command('receipts')
  for (const build of [
    listCommand,
    showCommand,
    tailCommand,
    verifyCommand,
    exportCommand,
    proveCommand,
    consistencyCommand,
    checkpointCommand,
    keyCommand,
  ]) {
    receipts.addCommand(build(context))
  }
  return receipts
}
