/** Where a call to a provider goes and in which words: its record, joined with what was switched on and configured. */
import { CraikError } from '../../errors.ts'
import { parseReference } from '../../lib/ids.ts'
import type { Dialect } from '../adapters/adapter.ts'
import { checkBaseUrl } from '../base-url.ts'
import type { ModelCall, ProviderDeps } from '../dispatch-types.ts'
import type { Billing } from '../ledger/tokens.ts'
import { loopbackRefusal } from '../local/loopback.ts'
import { CATALOGUE } from '../provider-catalogue.ts'
import type { ProviderRecord } from '../provider-record.ts'
import { evaluateReadiness, type ReadinessFacts, type ReadinessRule, readiness } from './readiness.ts'

export interface Route {
  readonly record: ProviderRecord
  readonly dialect: Dialect
  readonly model: string
  /** Undefined where nothing is dialled. */
  readonly baseUrl: string | undefined
  readonly loopbackOnly: boolean
  readonly billing: Billing
  /** The secret that the provider wants, by name. */
  readonly secretName: string | undefined
  readonly facts: ReadinessFacts
}

/** Why a provider is not called at all, whatever policy says. */
export interface Refusal {
  readonly rule: ReadinessRule
  readonly facts: ReadinessFacts
  readonly reason: string
  readonly hint: string
}

const DEFAULT_DIALECTS: Readonly<Record<ProviderRecord['provider'], Dialect>> = {
  openai: 'openai_responses',
  anthropic: 'anthropic_messages',
  gemini: 'gemini',
  chat_completions: 'chat_completions',
  fixture: 'fixture',
}

/** Reads settings and variables; opens no connection and reads no secret. */
export async function findRoute(
  place: Pick<ProviderDeps, 'store' | 'environment'>,
  record: ProviderRecord,
  call: Pick<ModelCall, 'model' | 'transport'>,
): Promise<Route | Refusal> {
  const { id, modes, metadata, trust_boundary } = record
  const setting = await place.store.read((tables) => tables.providerSettings.get(id))
  const spoken = metadata.dialect ?? DEFAULT_DIALECTS[record.provider]
  const dials = call.transport === 'live' && spoken !== 'fixture'
  const facts = readiness({
    provider_id: id,
    modes: [...modes],
    trust_boundary,
    dials,
    enabled: setting?.enabled === true,
    breaker: null,
  })
  const rule = evaluateReadiness(facts)
  if (rule !== undefined) return { rule, facts, ...wordsFor(rule, record) }
  const enabled = setting?.enabled === true ? setting : undefined
  const baseUrl = dials ? baseUrlOf(record, enabled?.baseUrl) : undefined
  return {
    record,
    dialect: dials ? spoken : 'fixture',
    model: modelOf(record, call.model ?? enabled?.model, place.environment),
    baseUrl,
    loopbackOnly: trust_boundary === 'local' || (baseUrl !== undefined && isLoopback(baseUrl)),
    billing: !dials || trust_boundary === 'local' ? 'free' : (metadata.billing ?? 'metered'),
    secretName: dials ? record.secret_ref_names[0] : undefined,
    facts,
  }
}

function wordsFor(rule: ReadinessRule, { id, modes }: ProviderRecord): Pick<Refusal, 'reason' | 'hint'> {
  if (rule === 'provider.not_enabled')
    return {
      reason: `${id} is not enabled, so Craik does not call it`,
      hint: `enable the provider:  craik provider enable ${id}`,
    }
  return {
    reason: `${id} does not support 'chat' (supported: ${modes.join(', ')})`,
    hint: 'choose another provider:  craik provider list',
  }
}

/** The one that was switched on, the record's, or its family's own. Never a variable's: a key goes where records say. */
function baseUrlOf(record: ProviderRecord, enabled: string | undefined): string {
  const given = enabled ?? record.metadata.base_url ?? familyBaseUrl(record.provider)
  const refusal =
    given === undefined ? 'is missing' : checkBaseUrl(given, { local: record.trust_boundary === 'local' })
  if (given !== undefined && refusal === undefined) return given
  throw new CraikError('invalid_config', `provider ${record.id}: the base URL ${refusal}`, {
    hint: `see its record:  craik provider show ${record.id}`,
  })
}

function familyBaseUrl(family: ProviderRecord['provider']): string | undefined {
  const own = CATALOGUE.find(
    ({ provider, trust_boundary }) => provider === family && trust_boundary === 'hosted',
  )
  return own?.metadata.base_url
}

function modelOf(record: ProviderRecord, chosen: string | undefined, environment: NodeJS.ProcessEnv): string {
  const model = chosen ?? modelVariable(record, environment) ?? record.metadata.default_model
  if (model !== undefined) return parseReference(model, 'the model')
  throw new CraikError('invalid_config', `provider ${record.id} has no default model`, {
    hint: 'name one with --model-id, or give its record a metadata.default_model',
  })
}

function modelVariable({ config_refs }: ProviderRecord, environment: NodeJS.ProcessEnv): string | undefined {
  const name = config_refs.find((ref) => ref.endsWith('_MODEL'))
  return (name === undefined ? undefined : environment[name]) || undefined
}

function isLoopback(url: string): boolean {
  return loopbackRefusal(url) === undefined
}
