/**
 * Writes the settings of the agents that a sandbox was created with, so that they reach the gateway when the user
 * starts them by name.
 */
import { HARNESSES } from '../../harnesses/all.ts'
import { loginFor } from '../../harnesses/harness.ts'
import type { SandboxBody } from '../../operator/api/bodies.ts'
import type { ApiClient } from '../../sdk/client.ts'
import { GATEWAY_PORT, INSIDE } from '../../sidecar/protocol.ts'
import type { CliContext } from '../context.ts'
import { readHarnessLogins } from '../prompt/harness-logins.ts'
import { putSettings } from '../prompt/harness-settings.ts'

export async function setUpHarnesses(
  context: CliContext,
  client: ApiClient,
  sandbox: Pick<SandboxBody, 'id' | 'harnesses'>,
): Promise<void> {
  const names = new Set<string>(sandbox.harnesses.map(({ name }) => name))
  const agents = Object.values(HARNESSES).filter(({ name, logins }) => names.has(name) && logins.length > 0)
  if (agents.length === 0) return
  const { accounts } = await readHarnessLogins(context)
  const gateway = `http://127.0.0.1:${GATEWAY_PORT}`
  for (const harness of agents) {
    const place = { gateway, login: loginFor(harness, accounts), model: undefined, trustsProject: true }
    await putSettings(client, sandbox.id, INSIDE.home, harness, place, context.signal)
  }
}
