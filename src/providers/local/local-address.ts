/** Which address and model of a local server are meant: what was typed, the environment, the setting, the preset. */
import type { ProviderSettingRow } from '../../store/store.ts'
import type { LocalPreset } from './local-presets.ts'
import { parseLoopbackUrl } from './loopback.ts'

export interface LocalOptions {
  readonly baseUrl?: string | undefined
  readonly environment: NodeJS.ProcessEnv
  /** What live calls use now, if routing is on. */
  readonly setting: ProviderSettingRow | undefined
}

/** The first of them that says something. Throws `usage`, naming where it comes from, when that is not loopback. */
export function localBaseUrl(preset: LocalPreset, { baseUrl, environment, setting }: LocalOptions): string {
  if (baseUrl !== undefined) return parseLoopbackUrl(baseUrl, '--base-url').baseUrl
  const ref = preset.base_url_ref
  const configured = ref === null ? undefined : environment[ref]
  if (configured) return parseLoopbackUrl(configured, `base URL in ${ref}`).baseUrl
  return parseLoopbackUrl(setting?.baseUrl ?? preset.base_url).baseUrl
}

/** The model that calls would ask for, before the server has said which ones it has. */
export function chooseModel(preset: LocalPreset, environment: NodeJS.ProcessEnv): string {
  return (preset.model_ref === null ? undefined : environment[preset.model_ref]) || preset.default_model
}

/** The server's own spelling of a model: Ollama lists `llama3.2` as `llama3.2:latest`. */
export function findOfferedModel(models: readonly string[], wanted: string): string | undefined {
  return models.find((model) => model === wanted) ?? models.find((model) => model === `${wanted}:latest`)
}
