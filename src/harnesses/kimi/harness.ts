/** Kimi Code, which speaks the Agent Client Protocol itself. */
import type { Harness } from '../harness.ts'

/** The name that Kimi's own service uses for the model in coding programs. */
const DEFAULT_MODEL = 'kimi-for-coding'

export const kimiHarness: Harness = {
  name: 'kimi',
  title: 'Kimi Code',
  logins: [
    { family: 'kimi', kind: 'oauth' },
    { family: 'kimi', kind: 'api_key' },
  ],
  loginCommand: 'kimi login',
  keyName: 'KIMI_API_KEY',
  agent: () => ['kimi', 'acp'],
  // The sandbox already has the placeholder credential in KIMI_MODEL_API_KEY. Kimi names its login file after the
  // address of the service, so it would not find that file with another address.
  environment: ({ gateway, model }) => ({
    KIMI_MODEL_NAME: model ?? DEFAULT_MODEL,
    KIMI_MODEL_BASE_URL: `${gateway}/p/provider_kimi/v1`,
    KIMI_DISABLE_TELEMETRY: '1',
    KIMI_CODE_NO_AUTO_UPDATE: '1',
  }),
  settings: () => [],
}
