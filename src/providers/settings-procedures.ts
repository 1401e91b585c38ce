/** Enables and disables local routing in the writer thread: each change and its receipt, in one transaction. */
import { hash } from 'node:crypto'
import { CraikError } from '../errors.ts'
import type { Clock } from '../lib/clock.ts'
import { parseReference } from '../lib/ids.ts'
import type { ReceiptWriter } from '../receipts/receipt-writer.ts'
import type { ReceiptDraft } from '../receipts/schema.ts'
import type { Procedures, Tables } from '../store/store.ts'
import { parseLoopbackUrl } from './local/loopback.ts'
import {
  type DisableInput,
  disableProcedure,
  type EnableInput,
  enableProcedure,
  type SettingChange,
} from './provider-settings.ts'

export function providerSettingProcedures(receipts: ReceiptWriter, clock: Clock): Procedures {
  return {
    async [enableProcedure.name](tables: Tables, input: EnableInput): Promise<SettingChange> {
      const providerId = parseReference<string>(input.providerId, 'provider')
      const { baseUrl } = parseLoopbackUrl(input.baseUrl)
      const model = parseReference<string>(input.model, 'model')
      const setting = { providerId, enabled: true, baseUrl, model, updatedAtMs: clock.nowMs() }
      await tables.providerSettings.put(setting)
      const receipt = await receipts.append(tables, {
        ...settingReceipt(input.operator, 'enable', providerId, baseUrl),
        phase: 'point',
        status: 'passed',
        metadata: { ...addressOf(baseUrl), model, model_count: input.modelCount, health: 'ok' },
      })
      return { setting, receipt }
    },

    async [disableProcedure.name](tables: Tables, input: DisableInput): Promise<SettingChange> {
      const row = await tables.providerSettings.get(input.providerId)
      if (row === undefined || !row.enabled)
        throw new CraikError('conflict', `${input.providerId} is not enabled`, {
          hint: `enable it:  craik provider enable ${input.providerId}`,
        })
      const setting = { ...row, enabled: false, updatedAtMs: clock.nowMs() }
      await tables.providerSettings.put(setting)
      const receipt = await receipts.append(tables, {
        ...settingReceipt(input.operator, 'disable', row.providerId, row.baseUrl),
        phase: 'point',
        status: 'passed',
        metadata: { ...addressOf(row.baseUrl), model: row.model },
      })
      return { setting, receipt }
    },
  }
}

/**
 * Records the operator and the change. It identifies the address by its digest, because some addresses are not valid
 * references.
 */
export function settingReceipt(
  operator: string,
  operation: 'enable' | 'disable',
  providerId: string,
  baseUrl: string,
): Omit<ReceiptDraft, 'phase' | 'status'> {
  return {
    kind: 'environment_decision',
    operator,
    capability: 'provider.write',
    operation,
    target: providerId,
    links: { provider_id: providerId },
    digests: { base_url: `sha256:${hash('sha256', baseUrl)}` },
  }
}

/** Returns an address as references and integers. */
export function addressOf(baseUrl: string): { readonly host: string; readonly port: number } {
  const { host, port } = parseLoopbackUrl(baseUrl)
  return { host: host === '::1' ? 'ipv6-loopback' : host, port }
}
