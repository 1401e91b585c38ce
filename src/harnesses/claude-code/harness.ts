/** Claude Code, through the adapter that speaks the Agent Client Protocol for it. */
import { INSIDE } from '../../sidecar/protocol.ts'
import type { Harness } from '../harness.ts'

export const claudeCode: Harness = {
  name: 'claude-code',
  title: 'Claude Code',
  logins: [
    { family: 'anthropic', kind: 'oauth' },
    { family: 'anthropic', kind: 'api_key' },
  ],
  logIn: 'claude /login',
  keyName: 'ANTHROPIC_API_KEY',
  agent: () => ['claude-agent-acp'],
  // Without a terminal it takes a project's settings without a question, with their servers, hooks and leave; one mode is left in those
  // that its adapter reads itself.
  session: ({ trustsProject }) =>
    trustsProject
      ? {}
      : { meta: { claudeCode: { options: { settingSources: ['user'] } } }, modeId: 'default' },
  environment: ({ gateway, model }) => ({
    ANTHROPIC_BASE_URL: gateway,
    ...(model !== undefined && { ANTHROPIC_MODEL: model }),
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
    DISABLE_AUTOUPDATER: '1',
    // It refuses to skip its own questions as root unless it is told that this is a sandbox.
    IS_SANDBOX: '1',
  }),
  // Without these it greets a person with questions about colours and trust before it can be used.
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
