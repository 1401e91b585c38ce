/** `craik harness`: manages the agents' programs that sandboxes can use. Craik never redistributes them. */
import { Command } from 'commander'
import type { NounBuilder } from './context.ts'
import { addCommand } from './harness/add.ts'
import { infoCommand } from './harness/info.ts'
import { installCommand } from './harness/install.ts'
import { listHarnessesCommand } from './harness/list.ts'
import { pruneHarnessesCommand } from './harness/prune.ts'
import { updateCommand } from './harness/update.ts'

export const harnessCommand: NounBuilder = (context) =>
  new Command('harness')
    .addCommand(listHarnessesCommand(context))
    .addCommand(infoCommand(context))
    .addCommand(installCommand(context))
    .addCommand(addCommand(context))
    .addCommand(updateCommand(context))
    .addCommand(pruneHarnessesCommand(context))
