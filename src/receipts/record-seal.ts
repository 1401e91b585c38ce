/** Seals for records outside the log that only Craik may change. An edit in the database breaks the seal. */
import { createHmac, timingSafeEqual } from 'node:crypto'
import type { Home } from '../store/home.ts'
import type { Tables } from '../store/store.ts'
import { type LogKeys, loadLogKeys } from './log-keys.ts'

/** The interface for code in a transaction. The sealer implements it in the writer thread. */
export interface RecordSealer {
  /** `what` names the record, such as `session:agent_…`, so that a seal fits no other record. */
  sealRecord(tables: Tables, what: string, document: string): Promise<string>
  /** Throws when the key that sealed the record is missing. */
  checkRecord(what: string, document: string, seal: string): Exclude<SealStatus, 'unverified'>
}

export type SealStatus = 'verified' | 'tampered' | 'unverified'

/** `<kid>:<hmac>` */
export function sealRecord(keys: Pick<LogKeys, 'kid' | 'recordKey'>, what: string, document: string): string {
  return `${keys.kid}:${createHmac('sha256', keys.recordKey).update(`${what}\0${document}`).digest('hex')}`
}

/** Returns `unverified` when the key that sealed the record is missing. */
export function checkRecord(home: Home, what: string, document: string, seal: string): SealStatus {
  const kid = sealKeyId(seal)
  if (kid === undefined) return 'tampered'
  let keys: LogKeys
  try {
    keys = loadLogKeys(home, kid)
  } catch {
    return 'unverified'
  }
  return fitsSeal(keys, what, document, seal) ? 'verified' : 'tampered'
}

/** Returns the id of the key in a seal, or `undefined` when the text is not a seal. */
export function sealKeyId(seal: string): string | undefined {
  return /^([0-9a-f]{16}):[0-9a-f]{64}$/.exec(seal)?.[1]
}

export function fitsSeal(
  keys: Pick<LogKeys, 'kid' | 'recordKey'>,
  what: string,
  document: string,
  seal: string,
): boolean {
  return timingSafeEqual(Buffer.from(sealRecord(keys, what, document)), Buffer.from(seal))
}
