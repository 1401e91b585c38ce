/** OpenCode, which speaks the Agent Client Protocol itself and works with any available key. */
import type { Harness, HarnessContext, HarnessLogin } from '../harness.ts'

/**
 * For each provider: OpenCode's name for it, the variable with the placeholder credential, its path on the gateway, and
 * a default model.
 */
const PROVIDERS: Readonly<
  Partial<Record<HarnessLogin['family'], { name: string; key: string; path: string; model: string }>>
> = {
  openrouter: {
    name: 'openrouter',
    key: 'OPENROUTER_API_KEY',
    path: '/p/provider_openrouter/v1',
    model: 'anthropic/claude-sonnet-4.5',
  },
  anthropic: { name: 'anthropic', key: 'ANTHROPIC_API_KEY', path: '/v1', model: 'claude-sonnet-4-5' },
  openai: { name: 'openai', key: 'OPENAI_API_KEY', path: '/v1', model: 'gpt-5' },
  gemini: { name: 'google', key: 'GEMINI_API_KEY', path: '/v1beta', model: 'gemini-2.5-pro' },
}

export const opencodeHarness: Harness = {
  name: 'opencode',
  title: 'OpenCode',
  logins: [
    { family: 'openrouter', kind: 'api_key' },
    { family: 'anthropic', kind: 'api_key' },
    { family: 'openai', kind: 'api_key' },
    { family: 'gemini', kind: 'api_key' },
  ],
  loginCommand: 'opencode auth login',
  keyName: 'OPENROUTER_API_KEY',
  agent: () => ['opencode', 'acp'],
  // OpenCode has two readers of a project's settings. The newer one loads plugins with each turn, and no variable
  // disables it.
  alwaysLoadedFiles: [
    'opencode.json',
    'opencode.jsonc',
    '.opencode/opencode.json',
    '.opencode/opencode.jsonc',
    '.opencode/plugin',
    '.opencode/plugins',
    '.opencode/tool',
    '.opencode/tools',
  ],
  environment: ({ trustsProject }) => ({
    OPENCODE_DISABLE_MODELS_FETCH: '1',
    OPENCODE_DISABLE_AUTOUPDATE: '1',
    OPENCODE_DISABLE_LSP_DOWNLOAD: '1',
    OPENCODE_DISABLE_DEFAULT_PLUGINS: '1',
    ...(!trustsProject && { OPENCODE_DISABLE_PROJECT_CONFIG: '1' }),
  }),
  settings: (harnessContext) => [
    { path: '.config/opencode/opencode.json', content: configFile(harnessContext) },
  ],
}

/**
 * OpenCode's free models need no login but a network, which the sandbox does not have. So the file offers only the
 * provider with a login.
 */
function configFile({ gateway, login, model }: HarnessContext): string {
  const provider = login && PROVIDERS[login.family]
  const chosen = provider && `${provider.name}/${model ?? provider.model}`
  const config = {
    $schema: 'https://opencode.ai/config.json',
    share: 'disabled',
    permission: { bash: 'ask', edit: 'ask', webfetch: 'ask', external_directory: 'ask' },
    ...(provider && {
      enabled_providers: [provider.name],
      model: chosen,
      small_model: chosen,
      provider: {
        [provider.name]: {
          options: { baseURL: `${gateway}${provider.path}`, apiKey: `{env:${provider.key}}` },
        },
      },
    }),
  }
  return `${JSON.stringify(config, null, 2)}\n`
}
