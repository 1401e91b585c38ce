/** Codex, through the adapter that speaks the Agent Client Protocol for it. */
import { INSIDE } from '../../sidecar/protocol.ts'
import type { Harness, HarnessContext } from '../harness.ts'

export const codexHarness: Harness = {
  name: 'codex',
  title: 'Codex',
  logins: [
    { family: 'openai', kind: 'oauth' },
    { family: 'openai', kind: 'api_key' },
  ],
  loginCommand: 'codex login',
  keyName: 'OPENAI_API_KEY',
  // The adapter makes Codex trust every project. `codex-acp-untrusting` is the same adapter without this trust.
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
 * Codex's own sandbox cannot start in a Craik sandbox, so Codex gets every permission in the sandbox. It asks before it
 * runs anything that needs a shell. It reaches models through a provider named `craik`, because the default provider's
 * address cannot be changed. The workspace is trusted, because everything in it runs only in the sandbox. A prompt that
 * must not trust it uses `codex-acp-untrusting`. The background daemon is off: it would first copy all of Codex into
 * the sandbox home, and would outlive the terminal.
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
