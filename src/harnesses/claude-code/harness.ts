/** Claude Code, through the adapter that speaks the Agent Client Protocol for it. */
import { INSIDE } from '../../sidecar/protocol.ts'
import type { Harness } from '../harness.ts'

export const claudeCodeHarness: Harness = {
  name: 'claude-code',
  title: 'Claude Code',
  logins: [
    { family: 'anthropic', kind: 'oauth' },
    { family: 'anthropic', kind: 'api_key' },
  ],
  loginCommand: 'claude /login',
  keyName: 'ANTHROPIC_API_KEY',
  agent: () => ['claude-agent-acp'],
  // Without a terminal, Claude Code loads a project's settings without asking, including servers, hooks and
  // permissions. Its adapter also reads the project's mode itself, so `modeId` sets the mode again.
  session: ({ trustsProject }) =>
    trustsProject
      ? {}
      : { meta: { claudeCode: { options: { settingSources: ['user'] } } }, modeId: 'default' },
  environment: ({ gateway, model }) => ({
    ANTHROPIC_BASE_URL: gateway,
    ...(model !== undefined && { ANTHROPIC_MODEL: model }),
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
    DISABLE_AUTOUPDATER: '1',
    // As root, Claude Code refuses to skip its permission prompts unless this variable declares a sandbox.
    IS_SANDBOX: '1',
  }),
  // Without these settings, Claude Code first asks the user about colors and trust.
  settings: () => [
    {
      path: '.claude.json',
      content: `${JSON.stringify(
        {
          hasCompletedOnboarding: true,
          theme: 'dark',
          projects: { [INSIDE.workspace]: { hasTrustDialogAccepted: true } },
        },
        null,
        2,
      )}\n`,
    },
  ],
}
