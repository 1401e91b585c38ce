/**
 * Chooses the address and the model of a local server from the command line, the environment, the setting and the
 * preset.
 */
import type { ProviderSettingRow } from '../../store/store.ts'
import type { LocalPreset } from './local-presets.ts'
import { parseLoopbackUrl } from './loopback.ts'

export interface LocalOptions {
  readonly baseUrl?: string | undefined
  readonly environment: NodeJS.ProcessEnv
  /** The setting of live calls, when routing is enabled. */
  readonly setting: ProviderSettingRow | undefined
}

/** Returns the first of these that is set. Throws `usage`, with the source of the value, when it is not loopback. */
export function localBaseUrl(preset: LocalPreset, { baseUrl, environment, setting }: LocalOptions): string {
  if (baseUrl !== undefined) return parseLoopbackUrl(baseUrl, '--base-url').baseUrl
  const ref = preset.base_url_ref
  const configured = ref === null ? undefined : environment[ref]
  if (configured) return parseLoopbackUrl(configured, `base URL in ${ref}`).baseUrl
  return parseLoopbackUrl(setting?.baseUrl ?? preset.base_url).baseUrl
}

/** Returns the model that calls request, before the server has listed its models. */
export function chooseModel(preset: LocalPreset, environment: NodeJS.ProcessEnv): string {
  return (preset.model_ref === null ? undefined : environment[preset.model_ref]) || preset.default_model
}

/** Returns the server's own name for a model. Ollama lists `llama3.2` as `llama3.2:latest`. */
export function findOfferedModel(models: readonly string[], wanted: string): string | undefined {
  return models.find((model) => model === wanted) ?? models.find((model) => model === `${wanted}:latest`)
}
