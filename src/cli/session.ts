/** `craik session`: lists, shows and exports the records of agent sessions. */
import { Command } from 'commander'
import { sessionListCommand, sessionShowCommand } from './agent/list.ts'
import { recordDeps } from './agent/open-run-deps.ts'
import { requireOwnRecord } from './agent/own-records.ts'
import type { CliContext, NounBuilder } from './context.ts'
import { printRecord } from './output.ts'

export const sessionCommand: NounBuilder = (context) =>
  new Command('session')
    .addCommand(sessionListCommand(context, 'session'))
    .addCommand(sessionShowCommand(context, 'show', 'session'))
    .addCommand(exportCommand(context))

function exportCommand(context: CliContext): Command {
  return new Command('export')
    .description(
      'export a session, its runs, events, handoffs and receipt ids as JSON; no prompts, no secrets',
    )
    .argument('<session>', 'id of the session')
    .addHelpText(
      'after',
      '\nExample:\n  craik session export agent_shop_openai_20261115091244 > session.json\n',
    )
    .action(async (id: string) => {
      const { getSession } = await import('../run/agents/read-agent-records.ts')
      const deps = await recordDeps(context)
      const found = await getSession(deps, id)
      await requireOwnRecord(context, await context.operator(), 'export', 'session', found)
      const { exportSession } = await import('../run/agents/export-session.ts')
      printRecord(context, { format: 'json' }, await exportSession(deps, id), () => '')
    })
}
