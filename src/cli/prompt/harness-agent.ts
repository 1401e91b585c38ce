/** Starts the agent of a harness in a sandbox, with its settings there. */
import { CraikError } from '../../errors.ts'
import { AGENT_STOP_MS } from '../../harnesses/acp/agent-link.ts'
import type { Harness, HarnessContext, HarnessLogin, SessionOptions } from '../../harnesses/harness.ts'
import type { PermissionMode } from '../../run/prompts/permissions.ts'
import type { ApiClient } from '../../sdk/client.ts'
import { GATEWAY_PORT, INSIDE, LIMITS } from '../../sidecar/protocol.ts'
import type { CliContext } from '../context.ts'
import { type AgentJob, startAgentJob } from './agent-job.ts'
import { putSettings } from './harness-settings.ts'

export interface HarnessAgent {
  readonly harness: Harness
  readonly login: HarnessLogin | undefined
  readonly model: string | undefined
  readonly permissions: PermissionMode
  readonly sandboxId: string
  /** The session that the agent continues. */
  readonly session: string | null | undefined
}

/** A harness runs some programs of a project without asking. It may trust the project only if everything is allowed. */
const contextOf = ({ login, model, permissions }: HarnessAgent): HarnessContext => ({
  gateway: `http://127.0.0.1:${GATEWAY_PORT}`,
  login,
  model,
  trustsProject: permissions === 'allow',
})

export function sessionTerms(agent: HarnessAgent): SessionOptions {
  return agent.harness.session?.(contextOf(agent)) ?? {}
}

export async function prepareHarness(
  context: CliContext,
  client: ApiClient,
  agent: HarnessAgent,
): Promise<void> {
  const { harness, sandboxId, session } = agent
  await refuseProject(context, client, agent)
  await putSettings(client, sandboxId, INSIDE.home, harness, contextOf(agent), context.signal)
  const before = session && harness.resumePreparationCommand?.(session)
  if (before) await client.sandboxes.exec(sandboxId, { argv: [...before] }, { signal: context.signal })
}

export function startHarness(
  context: CliContext,
  client: ApiClient,
  agent: HarnessAgent,
  timeoutMs: number,
): AgentJob {
  const { harness, sandboxId } = agent
  const harnessContext = contextOf(agent)
  const env = harness.environment(harnessContext)
  const spec = { argv: harness.agent(harnessContext), cwd: INSIDE.workspace, timeoutMs, env }
  return startAgentJob(client, sandboxId, spec, context.clock.nowMs())
}

/** Returns the timeout for the job of an agent. It includes the time that the agent may take to stop. */
export function jobTimeoutMs(timeoutMs: number): number {
  return Math.max(timeoutMs, Math.min(timeoutMs + AGENT_STOP_MS, LIMITS.maxTimeoutMs))
}

export function timeoutError({ name }: Harness, timeoutMs: number, command: 'prompt' | 'acp'): CraikError {
  return new CraikError('timeout', `${name} did not finish within ${Math.round(timeoutMs / 1000)} s`, {
    hint: `allow more time:  craik ${command} --timeout 4h`,
  })
}

/** Searches in the sandbox, as its user. Nothing of the project has run yet. */
async function refuseProject(context: CliContext, client: ApiClient, agent: HarnessAgent): Promise<void> {
  const { harness, sandboxId, permissions } = agent
  const { alwaysLoadedFiles: startsAnyway = [] } = harness
  if (contextOf(agent).trustsProject || startsAnyway.length === 0) return
  const argv = ['/bin/sh', '-c', FIND_FIRST, 'sh', ...startsAnyway]
  const { exit_code, stdout } = await client.sandboxes.exec(
    sandboxId,
    { argv, cwd: INSIDE.workspace },
    { signal: context.signal },
  )
  if (exit_code === NOTHING) return
  const found = startsAnyway.find((path) => path === stdout.data.trim()) ?? 'something'
  throw new CraikError(
    'usage',
    `the project has ${found}, which ${harness.title} would run without asking: not allowed with --permissions ${permissions}`,
    {
      hint: `remove ${found === 'something' ? 'that file' : found} from the folder, choose another --harness, or allow everything:  --permissions allow`,
    },
  )
}

const NOTHING = 3
/**
 * A mounted workspace has an empty JSON object in place of a missing protected file, so that content does not count.
 */
const FIND_FIRST = `
for path; do
  if [ -L "$path" ]; then echo "$path"; exit 0; fi
  if [ -e "$path" ] && ! { [ -f "$path" ] && [ "$(head -c 9 "$path")" = '{}' ]; }; then echo "$path"; exit 0; fi
done
exit ${NOTHING}`
