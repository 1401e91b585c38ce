/** `craik agent`: manages sessions that outlive a command. Craik authorizes each prompt and writes a receipt for it. */
import { Command } from 'commander'
import { auditCommand } from './agent/audit.ts'
import { changeCommand, renameCommand } from './agent/change-session.ts'
import { launchAgentCommand } from './agent/launch.ts'
import { sessionListCommand, sessionShowCommand } from './agent/list.ts'
import { promptAgentCommand } from './agent/prompt.ts'
import { OWN_AGENT_HELP } from './agent/run-options.ts'
import type { NounBuilder } from './context.ts'

export const agentCommand: NounBuilder = (context) =>
  new Command('agent')
    .addCommand(launchAgentCommand(context))
    .addCommand(sessionListCommand(context, 'agent'))
    .addCommand(sessionShowCommand(context, 'status', 'agent'))
    .addCommand(promptAgentCommand(context))
    .addCommand(renameCommand(context))
    .addCommand(changeCommand(context, 'stop'))
    .addCommand(changeCommand(context, 'restart'))
    .addCommand(changeCommand(context, 'recover'))
    .addCommand(auditCommand(context))
    .addHelpText('after', OWN_AGENT_HELP.trimEnd())
