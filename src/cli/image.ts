/** `craik image`: what containers are made of. It speaks to the engine itself; nothing that it does leaves this machine. */
import { Command } from 'commander'
import type { NounBuilder } from './context.ts'
import { buildCommand } from './image/build.ts'
import { listCommand, showCommand } from './image/list.ts'
import { pruneCommand } from './image/prune.ts'

export const imageCommand: NounBuilder = (context) =>
  new Command('image')
    .addCommand(buildCommand(context))
    .addCommand(listCommand(context))
    .addCommand(showCommand(context))
    .addCommand(pruneCommand(context))
