/** `craik snapshot`: manages the saved disks of sandboxes. */
import { Command } from 'commander'
import type { NounBuilder } from './context.ts'
import { deleteSnapshotCommand } from './snapshot/delete.ts'
import { exportSnapshotCommand } from './snapshot/export.ts'
import { importCommand } from './snapshot/import.ts'
import { listSnapshotsCommand, showSnapshotCommand } from './snapshot/list.ts'

export const snapshotCommand: NounBuilder = (context) =>
  new Command('snapshot')
    .addCommand(listSnapshotsCommand(context))
    .addCommand(showSnapshotCommand(context))
    .addCommand(exportSnapshotCommand(context))
    .addCommand(importCommand(context))
    .addCommand(deleteSnapshotCommand(context))
