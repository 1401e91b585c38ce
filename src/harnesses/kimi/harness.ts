/** Kimi Code, which speaks the Agent Client Protocol itself. */
import type { Harness } from '../harness.ts'

/** What its own service calls the model for programs like it. */
const DEFAULT_MODEL = 'kimi-for-coding'

export const kimi: Harness = {
  name: 'kimi',
  title: 'Kimi Code',
  logins: [
    { family: 'kimi', kind: 'oauth' },
    { family: 'kimi', kind: 'api_key' },
  ],
  logIn: 'kimi login',
  keyName: 'KIMI_API_KEY',
  agent: () => ['kimi', 'acp'],
  // The stand-in itself is in KIMI_MODEL_API_KEY, which the sandbox has: its file is named after where it is for, and would
  // not be found under another address.
  environment: ({ gateway, model }) => ({
    KIMI_MODEL_NAME: model ?? DEFAULT_MODEL,
    KIMI_MODEL_BASE_URL: `${gateway}/p/provider_kimi/v1`,
    KIMI_DISABLE_TELEMETRY: '1',
    KIMI_CODE_NO_AUTO_UPDATE: '1',
  }),
  settings: () => [],
}
