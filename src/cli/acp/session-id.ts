/**
 * Builds the session id for an editor from the sandbox id and the agent's own session id. So sessions of different
 * sandboxes never share an id.
 */
import { CraikError } from '../../errors.ts'
import type { HarnessName } from '../../harnesses/harness.ts'
import type { PromptRun } from '../../run/prompts/prompt-record.ts'
import { getPromptRun, listPromptRuns } from '../../run/prompts/runs.ts'
import type { CliContext } from '../context.ts'

/**
 * So far, agents build their ids from hexadecimal digits and letters. Craik refuses ids with other characters, because
 * they could be mistaken for something else.
 */
const AGENT_SESSION = /^[\w.:-]{1,200}$/

export function sessionIdOf(sandboxId: string, agentSession: string, harness: HarnessName): string {
  if (!AGENT_SESSION.test(agentSession))
    throw new CraikError(
      'harness_failed',
      `${harness} reported an invalid session id: ${JSON.stringify(agentSession.slice(0, 60))}`,
      { hint: 'start a new session; if that fails too, check the harness:  craik harness list' },
    )
  return `${sandboxId}.${agentSession}`
}

/** Returns the newest prompt run of that session, or the prompt run with that id. */
export async function runOfSession(
  context: CliContext,
  harness: HarnessName,
  sessionId: string,
): Promise<PromptRun & { readonly agent_session: string }> {
  const deps = { store: await context.store(), home: context.home }
  const operator = await context.operator()
  const run = sessionId.startsWith('run_')
    ? await getPromptRun(deps, operator, sessionId)
    : (await listPromptRuns(deps, operator)).runs.find(
        ({ sandbox_id, agent_session }) => `${sandbox_id}.${agent_session}` === sessionId,
      )
  if (run === undefined || run.agent_session === null)
    throw new CraikError(
      'not_found',
      `no run of craik prompt or craik acp has the session ${sessionId.slice(0, 200)}`,
      {
        hint: 'list those runs:  craik run list --prompts',
      },
    )
  if (run.harness !== harness)
    throw new CraikError('usage', `session ${sessionId} belongs to ${run.harness}, not ${harness}`, {
      hint: `in the settings of the editor, write:  craik acp --harness ${run.harness}`,
    })
  return { ...run, agent_session: run.agent_session }
}
