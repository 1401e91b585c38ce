/** `agent prompt`: the operator gives a session a task, and thereby approves this run and no other. */
import { Command } from 'commander'
import type { Json } from '../../lib/canonical-json.ts'
import type { CliContext } from '../context.ts'
import { formatOption, printRecord } from '../output.ts'
import { openRunDeps } from './open-run-deps.ts'
import { addLimits, type LimitFlags, promptLimits } from './run-options.ts'

export function promptAgentCommand(context: CliContext): Command {
  return addLimits(
    new Command('prompt')
      .description('give a session a task, within limits')
      .argument('<session>', 'id of the session')
      .argument('<text>', 'task in quotes, or - to read it from stdin; Craik stores only its hash'),
  )
    .addOption(formatOption())
    .addHelpText(
      'after',
      `
This approves the model calls within the limits, and one use of the test command
(uname -s). Any other command must be registered (craik command) and granted:
  craik grant create --capability shell.execute --operation run \\
    --target unit-tests --session-id SESSION

Examples:
  craik agent prompt agent_shop_openai_20261115091244 "do the tests pass?"
  craik agent prompt agent_shop_openai_20261115091244 - < task.md
`,
    )
    .action(async (sessionId: string, text: string, flags: LimitFlags) => {
      const { requireLogin } = await import('../../run/agents/operator-login.ts')
      const { subject } = await requireLogin(await context.store())
      const { promptSession } = await import('../../run/agents/prompt-session.ts')
      const {
        executionRecord,
        runExitCode,
        formatSummary: summary,
        RunProgressView,
      } = await import('./run-view.ts')
      const { readPrompt: promptFrom } = await import('./read-prompt.ts')
      const prompt = await promptFrom(context, text)
      const deps = await openRunDeps(context)
      using watcher = new RunProgressView(context, flags)
      const executed = await promptSession(deps, subject, sessionId, prompt, {
        ...promptLimits(flags),
        onProgress: watcher.onProgress,
      })
      const { getSession, listEvents } = await import('../../run/agents/read-agent-records.ts')
      const { record: session } = await getSession(deps, sessionId)
      const record = {
        schema: 'craik.agent_prompt_execution',
        ...executionRecord(executed),
        exit_behavior: executed.run.status,
        session: session as unknown as Json,
        events: (await listEvents(deps, { runId: executed.run.id })) as unknown as Json,
      }
      printRecord(context, flags, record, () => summary(executed))
      context.setExitCode(runExitCode(executed.run))
    })
}
