/** Seals for records that are no receipts and may change, but only through Craik: an edit in the database shows. */
import { createHmac, timingSafeEqual } from 'node:crypto'
import type { Home } from '../store/home.ts'
import type { Tables } from '../store/store.ts'
import { type LogKeys, loadLogKeys } from './keys.ts'

/** What code inside a transaction may do; the sealer implements it in the writer thread. */
export interface RecordSealer {
  /** `what` says which record this is, such as `session:agent_…`, so that a seal fits no other. */
  sealRecord(tables: Tables, what: string, document: string): Promise<string>
  /** Throws when the key that sealed it is not here. */
  checkRecord(what: string, document: string, seal: string): Exclude<SealStatus, 'unverified'>
}

export type SealStatus = 'verified' | 'tampered' | 'unverified'

/** `<kid>:<hmac>` */
export function sealRecord(keys: Pick<LogKeys, 'kid' | 'recordKey'>, what: string, document: string): string {
  return `${keys.kid}:${createHmac('sha256', keys.recordKey).update(`${what}\0${document}`).digest('hex')}`
}

/** `unverified` when the key that sealed it is not here. */
export function checkRecord(home: Home, what: string, document: string, seal: string): SealStatus {
  const kid = sealedWith(seal)
  if (kid === undefined) return 'tampered'
  let keys: LogKeys
  try {
    keys = loadLogKeys(home, kid)
  } catch {
    return 'unverified'
  }
  return fitsSeal(keys, what, document, seal) ? 'verified' : 'tampered'
}

/** The id of the key that a seal was made with; undefined when it is no seal. */
export function sealedWith(seal: string): string | undefined {
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
