/** A harness's agent, started in a sandbox with its settings there. */
import type { Harness, HarnessLogin } from '../../harnesses/harness.ts'
import type { ApiClient } from '../../sdk/client.ts'
import { GATEWAY_PORT, INSIDE } from '../../sidecar/protocol.ts'
import type { CliContext } from '../context.ts'
import { type AgentJob, startAgentJob } from './agent-job.ts'
import { putSettings } from './settings.ts'

export interface HarnessAgent {
  readonly harness: Harness
  readonly login: HarnessLogin | undefined
  readonly model: string | undefined
  readonly sandboxId: string
  /** A session that it is to take up again. */
  readonly session: string | null | undefined
}

const placeOf = ({ login, model }: HarnessAgent) => ({
  ...{ gateway: `http://127.0.0.1:${GATEWAY_PORT}`, login, model },
})

export async function readyHarness(
  context: CliContext,
  client: ApiClient,
  agent: HarnessAgent,
): Promise<void> {
  const { harness, sandboxId, session } = agent
  await putSettings(client, sandboxId, INSIDE.home, harness, placeOf(agent), context.signal)
  const before = session && harness.beforeResume?.(session)
  if (before) await client.sandboxes.exec(sandboxId, { argv: [...before] }, { signal: context.signal })
}

export function startHarness(
  context: CliContext,
  client: ApiClient,
  agent: HarnessAgent,
  timeoutMs: number,
): AgentJob {
  const { harness, sandboxId } = agent
  const env = harness.environment(placeOf(agent))
  const spec = { argv: harness.agent, cwd: INSIDE.workspace, timeoutMs, env }
  return startAgentJob(client, sandboxId, spec, context.clock.nowMs())
}
