/** Model servers that users run on their own host, with the default address of each. */
import { CraikError } from '../../errors.ts'
import type { ProviderRecord } from '../provider-record.ts'

export interface LocalPreset {
  /** The name that the user types: `ollama`. */
  readonly id: string
  readonly provider_id: string
  readonly name: string
  readonly base_url: string
  readonly default_model: string
  /** The environment variables that override the preset. */
  readonly base_url_ref: string | null
  readonly model_ref: string | null
}

/** Sorted by id. */
export const LOCAL_PRESETS: readonly LocalPreset[] = [
  preset('lm-studio', 'LM Studio', 1234, 'local-model', 'LM_STUDIO'),
  preset('ollama', 'Ollama', 11434, 'llama3.2', 'OLLAMA'),
  preset(
    'openai-compatible',
    'Local server, OpenAI-compatible',
    11434,
    'llama3.2',
    'LOCAL_OPENAI_COMPATIBLE',
  ),
  preset('vllm', 'vLLM', 8000, 'local-model', 'VLLM'),
]

/**
 * Returns a preset by its short name (`lm-studio` or `lm_studio`) or its provider id. The user's own local providers
 * count as presets.
 */
export function findLocalPreset(nameOrId: string, records: readonly ProviderRecord[] = []): LocalPreset {
  const serialized = nameOrId.replaceAll('_', '-')
  const found = LOCAL_PRESETS.find(({ id, provider_id }) => id === serialized || provider_id === nameOrId)
  if (found !== undefined) return found
  const own = records.find(({ id }) => id === nameOrId)
  if (own?.trust_boundary === 'local' && own.metadata.base_url !== undefined)
    return presetOf(own, own.metadata.base_url)
  if (own !== undefined)
    throw new CraikError('usage', `${own.id} is not a local model server; you need not enable it`, {
      hint: `use a local preset: ${LOCAL_PRESETS.map(({ id }) => id).join(', ')}`,
    })
  throw new CraikError('not_found', `unknown local preset: ${quoteShort(nameOrId)}`, {
    hint: `use one of ${LOCAL_PRESETS.map(({ id }) => id).join(', ')}; list local presets:  craik provider local-presets`,
  })
}

function presetOf({ id, name, metadata, config_refs }: ProviderRecord, baseUrl: string): LocalPreset {
  return {
    id,
    provider_id: id,
    name,
    base_url: baseUrl,
    default_model: metadata.default_model ?? 'local-model',
    base_url_ref: config_refs.find((ref) => ref.endsWith('_BASE_URL')) ?? null,
    model_ref: config_refs.find((ref) => ref.endsWith('_MODEL')) ?? null,
  }
}

function preset(id: string, name: string, port: number, model: string, variable: string): LocalPreset {
  return {
    id,
    provider_id: `provider_local_${id.replaceAll('-', '_')}`,
    name,
    base_url: `http://localhost:${port}/v1`,
    default_model: model,
    base_url_ref: `${variable}_BASE_URL`,
    model_ref: `${variable}_MODEL`,
  }
}

function quoteShort(text: string): string {
  return JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text)
}
