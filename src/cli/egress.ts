/** `craik egress`: which hosts outside what runs in sandboxes may reach. */
import { Command } from 'commander'
import type { NounBuilder } from './context.ts'
import { allowCommand, denyCommand } from './egress/change.ts'
import { listCommand } from './egress/list.ts'
import { testCommand } from './egress/try.ts'
import { watchCommand } from './egress/watch.ts'

export const egressCommand: NounBuilder = (context) =>
  new Command('egress')
    .description('nothing is reached from inside a sandbox unless it is allowed here')
    .addCommand(allowCommand(context))
    .addCommand(denyCommand(context))
    .addCommand(listCommand(context))
    .addCommand(testCommand(context))
    .addCommand(watchCommand(context))
