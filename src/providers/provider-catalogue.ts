/** The providers that are built into Craik. These are plain constants, so listing them loads no schema. */
import { LOCAL_PRESETS, type LocalPreset } from './local/local-presets.ts'
import type { ProviderRecord } from './provider-record.ts'

type Capability = ProviderRecord['capabilities'][number]

/** A constant, so that the same records always give the same bytes. */
const CREATED_AT = '2026-11-01T00:00:00Z'

const CHAT: readonly Capability[] = [
  capability('model.chat', 'chat', 'reply to a conversation'),
  capability('model.streaming', 'chat', 'stream the response'),
  capability('model.tool_calls', 'chat', 'request tool calls'),
  capability('model.usage_metadata', 'chat', 'report token usage'),
]
const RUNNER = capability('runner.execute', 'runner', 'run an agent, with one grant per action')

export const CATALOGUE: readonly ProviderRecord[] = [
  record({
    id: 'provider_fixture_local',
    name: 'Fixture (deterministic, offline)',
    provider: 'fixture',
    trust_boundary: 'local',
    runtime_path: 'adapters/fixture',
    metadata: { dialect: 'fixture', default_model: 'fixture-1', billing: 'free' },
  }),
  anthropic('provider_anthropic', 'Anthropic'),
  anthropic('provider_anthropic_messages', 'Anthropic, Messages API'),
  openai('provider_openai', 'OpenAI', 'openai_responses'),
  openai('provider_openai_responses', 'OpenAI, Responses API', 'openai_responses'),
  openai('provider_openai_chat', 'OpenAI, Chat Completions API', 'chat_completions'),
  record({
    id: 'provider_gemini',
    name: 'Google Gemini',
    provider: 'gemini',
    trust_boundary: 'hosted',
    config_refs: ['GEMINI_MODEL'],
    secret_ref_names: ['GEMINI_API_KEY'],
    runtime_path: 'adapters/gemini',
    metadata: {
      dialect: 'gemini',
      base_url: 'https://generativelanguage.googleapis.com/v1beta',
      default_model: 'gemini-3.5-flash',
      billing: 'metered',
    },
    docs: ['docs/reference/providers.md', 'https://ai.google.dev/api'],
  }),
  ...LOCAL_PRESETS.map(localProvider),
  compatibleProvider({
    id: 'provider_openrouter',
    name: 'OpenRouter',
    trust_boundary: 'third-party',
    config_refs: ['OPENROUTER_MODEL'],
    secret_ref_names: ['OPENROUTER_API_KEY'],
    base_url: 'https://openrouter.ai/api/v1',
    default_model: 'anthropic/claude-sonnet-5',
    billing: 'metered',
    docs: 'https://openrouter.ai/docs',
  }),
  compatibleProvider({
    id: 'provider_kimi',
    name: 'Kimi for coding',
    trust_boundary: 'hosted',
    config_refs: ['KIMI_MODEL'],
    secret_ref_names: ['KIMI_API_KEY'],
    base_url: 'https://api.kimi.com/coding/v1',
    default_model: 'kimi-for-coding',
    billing: 'subscription',
    docs: 'https://www.kimi.com/coding/docs',
  }),
]

function anthropic(id: string, name: string): ProviderRecord {
  return record({
    id,
    name,
    provider: 'anthropic',
    trust_boundary: 'hosted',
    config_refs: ['ANTHROPIC_MODEL'],
    secret_ref_names: ['ANTHROPIC_API_KEY'],
    runtime_path: 'adapters/anthropic-messages',
    metadata: {
      dialect: 'anthropic_messages',
      base_url: 'https://api.anthropic.com/v1',
      default_model: 'claude-sonnet-5',
      billing: 'metered',
    },
    docs: ['docs/reference/providers.md', 'https://docs.claude.com/en/api/messages'],
  })
}

function openai(id: string, name: string, dialect: 'openai_responses' | 'chat_completions'): ProviderRecord {
  return record({
    id,
    name,
    provider: 'openai',
    trust_boundary: 'hosted',
    config_refs: ['OPENAI_MODEL'],
    secret_ref_names: ['OPENAI_API_KEY'],
    runtime_path: dialect === 'openai_responses' ? 'adapters/openai-responses' : 'adapters/chat-completions',
    metadata: {
      dialect,
      base_url: 'https://api.openai.com/v1',
      default_model: 'gpt-5.5',
      billing: 'metered',
    },
    docs: ['docs/reference/providers.md', 'https://platform.openai.com/docs/api-reference'],
  })
}

/** Returns the record of another provider that speaks Chat Completions. */
function compatibleProvider({
  base_url,
  default_model,
  billing,
  docs,
  ...facts
}: Pick<ProviderRecord, 'id' | 'name' | 'trust_boundary' | 'config_refs' | 'secret_ref_names'> & {
  readonly base_url: string
  readonly default_model: string
  readonly billing: 'metered' | 'subscription'
  readonly docs: string
}): ProviderRecord {
  return record({
    ...facts,
    provider: 'chat_completions',
    runtime_path: 'adapters/chat-completions',
    metadata: { dialect: 'chat_completions', base_url, default_model, billing },
    docs: ['docs/reference/providers.md', docs],
  })
}

function localProvider({ provider_id, name, base_url, default_model, base_url_ref, model_ref }: LocalPreset) {
  return record({
    id: provider_id,
    name,
    provider: 'chat_completions',
    trust_boundary: 'local',
    config_refs: [base_url_ref!, model_ref!],
    runtime_path: 'adapters/chat-completions',
    metadata: { dialect: 'chat_completions', base_url, default_model, billing: 'free' },
  })
}

type Facts = Pick<
  ProviderRecord,
  'id' | 'name' | 'provider' | 'trust_boundary' | 'runtime_path' | 'metadata'
> &
  Partial<Pick<ProviderRecord, 'config_refs' | 'secret_ref_names' | 'docs'>>

function record(facts: Facts): ProviderRecord {
  return {
    schema: 'craik.model_provider',
    version: '0.1.0',
    modes: ['chat', 'runner'],
    capabilities: [...CHAT, RUNNER],
    config_refs: [],
    secret_ref_names: [],
    budget_ref: `budget_${facts.id}`,
    quota_ref: `quota_${facts.id}`,
    docs: ['docs/reference/providers.md'],
    created_at: CREATED_AT,
    ...facts,
  }
}

function capability(name: Capability['name'], mode: Capability['mode'], description: string): Capability {
  return { name, mode, description, grant_required: true }
}
