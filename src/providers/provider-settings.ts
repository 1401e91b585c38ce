/** Live routing to local models: off until it is switched on, and where it goes once it is. */
import { existsSync } from 'node:fs'
import type { ReceiptRef } from '../receipts/receipt-writer.ts'
import type { Home } from '../store/home.ts'
import { type ProviderSettingRow, procedure, type Store } from '../store/store.ts'

export interface EnableInput {
  readonly operator: string
  readonly providerId: string
  readonly baseUrl: string
  readonly model: string
  /** How many models the health check found. */
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

/** The setting and its receipt are one transaction. What is not enabled is a `conflict`. */
export function disableProvider(store: Store, operator: string, providerId: string): Promise<SettingChange> {
  return store.write(disableProcedure, { operator, providerId })
}

/** Where live calls to a local provider go; undefined while it is off. Where there is no store yet, it makes none. */
export async function findEnabledSetting(
  home: Home,
  open: () => Promise<Store>,
  providerId: string,
): Promise<ProviderSettingRow | undefined> {
  if (!existsSync(home.database)) return undefined
  const row = await (await open()).read((tables) => tables.providerSettings.get(providerId))
  return row?.enabled ? row : undefined
}
