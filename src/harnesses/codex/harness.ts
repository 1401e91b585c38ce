/** Codex, through the adapter that speaks the Agent Client Protocol for it. */
import { INSIDE } from '../../sidecar/protocol.ts'
import type { Harness, HarnessContext } from '../harness.ts'

export const codex: Harness = {
  name: 'codex',
  title: 'Codex',
  logins: [
    { family: 'openai', kind: 'oauth' },
    { family: 'openai', kind: 'api_key' },
  ],
  logIn: 'codex login',
  keyName: 'OPENAI_API_KEY',
  // Its adapter trusts every project; the other one is the same with that taken back.
  agent: ({ trustsProject }) => [trustsProject ? 'codex-acp' : 'codex-acp-untrusting'],
  environment: ({ gateway, model }) => ({
    CODEX_REFRESH_TOKEN_URL_OVERRIDE: `${gateway}/oauth/token`,
    ...(model !== undefined && { CODEX_CONFIG: JSON.stringify({ model }) }),
  }),
  settings: (harnessContext) => [
    { path: '.codex/config.toml', content: configFile(harnessContext) },
    { path: '.codex/rules/craik.rules', content: RULES },
  ],
}

/**
 * Its own sandbox cannot start inside ours, so it has leave for everything there is inside, and asks before whatever a shell is needed
 * for. It reaches models through a provider of its own name: the default one cannot be pointed elsewhere. The workspace is trusted, since
 * whatever it brings along runs in the sandbox alone; a prompt that is not to take it for granted says so. A server of its own in the background would
 * copy all of Codex into the home first, and outlive the terminal.
 */
function configFile({ gateway, login }: HarnessContext): string {
  const base = login?.kind === 'api_key' ? `${gateway}/v1` : `${gateway}/backend-api/codex`
  return `check_for_update_on_startup = false
chatgpt_base_url = "${gateway}/backend-api"
model_provider = "craik"
approval_policy = "on-request"
default_permissions = "craik"

[permissions.craik.filesystem]
":root" = "write"

[permissions.craik.network]
enabled = true

[analytics]
enabled = false

[features]
plugins = false
apps = false
daemon_auto_start = false

[model_providers.craik]
name = "craik"
base_url = "${base}"
wire_api = "responses"
requires_openai_auth = true
supports_websockets = true

[projects."${INSIDE.workspace}"]
trust_level = "trusted"

[tui]
screen_reader_detection_done = true
`
}

const RULES = `prefix_rule(pattern=[["bash", "sh", "/bin/bash", "/bin/sh", "/usr/bin/bash", "/usr/bin/sh"]], decision="prompt")
`
