/** Enables live routing to a local model, but only when its server has just responded. */
import { CraikError } from '../../errors.ts'
import { REFERENCE } from '../../lib/ids.ts'
import type { ReceiptLog } from '../../receipts/receipt-log.ts'
import type { Store } from '../../store/store.ts'
import { enableProcedure, type SettingChange } from '../provider-settings.ts'
import { addressOf, settingReceipt } from '../settings-procedures.ts'
import { findOfferedModel } from './local-address.ts'
import { checkLocalHealth, type HealthOptions, type LocalHealth } from './local-health.ts'
import type { LocalPreset } from './local-presets.ts'

export interface EnableOptions extends HealthOptions {
  readonly operator: string
  /** The server must offer it. */
  readonly model?: string | undefined
  /** Used when the server offers it. Otherwise the server's first model is used. */
  readonly wantedModel: string
}

export interface Enabled extends SettingChange {
  readonly health: LocalHealth
}

/**
 * Checks the server, then enables it. With any status but `ok`, it throws `unavailable`, writes a receipt with the
 * status `blocked`, and does not change the setting.
 */
export async function enableProvider(
  store: Store,
  log: ReceiptLog,
  preset: LocalPreset,
  options: EnableOptions,
): Promise<Enabled> {
  const health = await checkLocalHealth(preset, options)
  const { operator } = options
  const { base_url: baseUrl, models } = health
  const refuse = async (why: string, reason: string, hint: string): Promise<never> => {
    const receipt = await log.append({
      ...settingReceipt(operator, 'enable', preset.provider_id, baseUrl),
      status: 'blocked',
      metadata: { ...addressOf(baseUrl), health: why },
    })
    throw new CraikError('unavailable', `${preset.provider_id} was not changed: ${reason}`, {
      hint,
      details: { receipt_id: receipt.id, health },
    })
  }
  if (health.status !== 'ok')
    return refuse(
      health.status,
      `${baseUrl} is ${health.status} (${health.detail})`,
      `start the server, then check it:  craik provider local-health ${preset.id} --base-url ${baseUrl}`,
    )
  const model = chooseModel(models, options)
  if (model === undefined)
    return refuse(
      'no_such_model',
      `${baseUrl} does not offer the model (it offers: ${models.slice(0, 5).join(', ') || 'none'})`,
      `list the models of the server:  craik provider local-health ${preset.id} --base-url ${baseUrl}`,
    )
  const input = { operator, providerId: preset.provider_id, baseUrl, model, modelCount: models.length }
  return { ...(await store.write(enableProcedure, input)), health }
}

function chooseModel(models: readonly string[], { model, wantedModel }: EnableOptions): string | undefined {
  const usable = models.filter((name) => REFERENCE.test(name))
  if (model !== undefined) return findOfferedModel(usable, model)
  // A server that loads models on demand lists none, and accepts any name.
  return findOfferedModel(usable, wantedModel) ?? (models.length === 0 ? wantedModel : usable[0])
}
