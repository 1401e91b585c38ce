/** `craik transcripts …`: what was said in agent sessions, on this machine and in sandboxes. */
import { Command } from 'commander'
import type { NounBuilder } from './context.ts'
import { exportCommand } from './transcripts/export.ts'
import { listCommand } from './transcripts/list.ts'
import { searchCommand } from './transcripts/search.ts'
import { showCommand } from './transcripts/show.ts'

export const transcriptsCommand: NounBuilder = (context) =>
  new Command('transcripts')
    .addCommand(listCommand(context))
    .addCommand(showCommand(context))
    .addCommand(exportCommand(context))
    .addCommand(searchCommand(context))
