/** Gemini CLI, which speaks the Agent Client Protocol itself. */
import type { Harness } from '../harness.ts'

export const gemini: Harness = {
  name: 'gemini',
  title: 'Gemini CLI',
  logins: [
    { family: 'gemini', kind: 'oauth' },
    { family: 'gemini', kind: 'api_key' },
  ],
  logIn: 'gemini',
  keyName: 'GEMINI_API_KEY',
  agent: () => ['gemini', '--acp'],
  beforeResume: (sessionId) => ['/bin/sh', '-c', SET_ASIDE, 'sh', sessionId.slice(0, 8)],
  environment: ({ gateway, model, trustsProject }) => ({
    // Of these two it takes the one that its login is for.
    CODE_ASSIST_ENDPOINT: gateway,
    GOOGLE_GEMINI_BASE_URL: gateway,
    ...(model !== undefined && { GEMINI_MODEL: model }),
    // It would start itself again, with more memory than a sandbox has.
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
            // A session that is taken up again leaves an empty file beside its own, for which it would remove both.
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
 * Its file of a session is named after the minute in which it was begun. Taken up again within that minute, it begins the same file anew,
 * and what was said is lost: so it has another name by then.
 */
const SET_ASIDE = `for file in "$HOME"/.gemini/tmp/*/chats/session-*-"$1".jsonl; do
  kept="\${file%/*}/session-2000-01-01T00-00-$1.jsonl"
  [ ! -f "$file" ] || [ -e "$kept" ] || mv -- "$file" "$kept"
done`
