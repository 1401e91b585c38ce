/** Live routing to local models: disabled by default, and the address and model once it is enabled. */
import { existsSync } from 'node:fs'
import type { ReceiptRef } from '../receipts/receipt-writer.ts'
import type { Home } from '../store/home.ts'
import { type ProviderSettingRow, procedure, type Store } from '../store/store.ts'

export interface EnableInput {
  readonly operator: string
  readonly providerId: string
  readonly baseUrl: string
  readonly model: string
  /** The number of models that the health check found. */
  readonly modelCount: number
}

export interface DisableInput {
  readonly operator: string
  readonly providerId: string
}

export interface SettingChange {
  readonly setting: ProviderSettingRow
  readonly receipt: ReceiptRef
}

export const enableProcedure = procedure<EnableInput, SettingChange>('providers.enable')
export const disableProcedure = procedure<DisableInput, SettingChange>('providers.disable')

/**
 * Changes the setting and writes its receipt in one transaction. Fails with `conflict` when the provider is not
 * enabled.
 */
export function disableProvider(store: Store, operator: string, providerId: string): Promise<SettingChange> {
  return store.write(disableProcedure, { operator, providerId })
}

/**
 * Returns the address and model for live calls to a local provider. `undefined` while it is disabled. Creates no store
 * when none exists.
 */
export async function findEnabledSetting(
  home: Home,
  open: () => Promise<Store>,
  providerId: string,
): Promise<ProviderSettingRow | undefined> {
  if (!existsSync(home.database)) return undefined
  const row = await (await open()).read((tables) => tables.providerSettings.get(providerId))
  return row?.enabled ? row : undefined
}
