/** Gemini CLI, which speaks the Agent Client Protocol itself. */
import type { Harness } from '../harness.ts'

export const geminiHarness: Harness = {
  name: 'gemini',
  title: 'Gemini CLI',
  logins: [
    { family: 'gemini', kind: 'oauth' },
    { family: 'gemini', kind: 'api_key' },
  ],
  loginCommand: 'gemini',
  keyName: 'GEMINI_API_KEY',
  agent: () => ['gemini', '--acp'],
  resumePreparationCommand: (sessionId) => [
    '/bin/sh',
    '-c',
    RENAME_SESSION_FILE,
    'sh',
    sessionId.slice(0, 8),
  ],
  environment: ({ gateway, model, trustsProject }) => ({
    // Gemini uses the one of these two that matches its login.
    CODE_ASSIST_ENDPOINT: gateway,
    GOOGLE_GEMINI_BASE_URL: gateway,
    ...(model !== undefined && { GEMINI_MODEL: model }),
    // Without this, Gemini would restart itself with more memory than a sandbox has.
    GEMINI_CLI_NO_RELAUNCH: 'true',
    ...(!trustsProject && { GEMINI_CLI_TRUST_WORKSPACE: 'false' }),
  }),
  settings: ({ login }) => [
    {
      path: '.gemini/settings.json',
      content: `${JSON.stringify(
        {
          security: {
            auth: { selectedType: login?.kind === 'api_key' ? 'gemini-api-key' : 'oauth-personal' },
            folderTrust: { enabled: false },
          },
          privacy: { usageStatisticsEnabled: false },
          general: {
            enableAutoUpdate: false,
            enableAutoUpdateNotification: false,
            // A resumed session leaves an empty file next to its own. With retention, Gemini would remove both because
            // of the empty one.
            sessionRetention: { enabled: false },
          },
        },
        null,
        2,
      )}\n`,
    },
  ],
}

/**
 * Gemini names a session's file after the minute in which the session started. If the session resumes in the same
 * minute, Gemini overwrites the file and loses the conversation. This script renames the file first.
 */
const RENAME_SESSION_FILE = `for file in "$HOME"/.gemini/tmp/*/chats/session-*-"$1".jsonl; do
  kept="\${file%/*}/session-2000-01-01T00-00-$1.jsonl"
  [ ! -f "$file" ] || [ -e "$kept" ] || mv -- "$file" "$kept"
done`
