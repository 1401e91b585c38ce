/** `craik transcripts`: lists, shows, searches and saves agent conversations, on this host and in sandboxes. */
import { Command } from 'commander'
import type { NounBuilder } from './context.ts'
import { exportTranscriptsCommand } from './transcripts/export.ts'
import { listTranscriptsCommand } from './transcripts/list.ts'
import { searchCommand } from './transcripts/search.ts'
import { showTranscriptCommand } from './transcripts/show.ts'

export const transcriptsCommand: NounBuilder = (context) =>
  new Command('transcripts')
    .addCommand(listTranscriptsCommand(context))
    .addCommand(showTranscriptCommand(context))
    .addCommand(exportTranscriptsCommand(context))
    .addCommand(searchCommand(context))
