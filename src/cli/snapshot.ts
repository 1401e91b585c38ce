/** `craik snapshot`: what was kept of sandboxes. */
import { Command } from 'commander'
import type { NounBuilder } from './context.ts'
import { deleteCommand } from './snapshot/delete.ts'
import { exportCommand } from './snapshot/export.ts'
import { importCommand } from './snapshot/import.ts'
import { listCommand, showCommand } from './snapshot/list.ts'

export const snapshotCommand: NounBuilder = (context) =>
  new Command('snapshot')
    .addCommand(listCommand(context))
    .addCommand(showCommand(context))
    .addCommand(exportCommand(context))
    .addCommand(importCommand(context))
    .addCommand(deleteCommand(context))
