/** `craik egress`: selects the hosts that programs in sandboxes may reach. */
import { Command } from 'commander'
import type { NounBuilder } from './context.ts'
import { allowCommand, denyCommand } from './egress/change-rules.ts'
import { listEgressCommand } from './egress/list.ts'
import { testCommand } from './egress/try.ts'
import { watchCommand } from './egress/watch.ts'

export const egressCommand: NounBuilder = (context) =>
  new Command('egress')
    .description('choose the hosts that sandboxes may reach; by default none')
    .addCommand(allowCommand(context))
    .addCommand(denyCommand(context))
    .addCommand(listEgressCommand(context))
    .addCommand(testCommand(context))
    .addCommand(watchCommand(context))
