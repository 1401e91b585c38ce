/**
 * Checks that Craik sealed a row of the log: with the home's own keys, unchanged, and linked to the previous receipt.
 */
import { loadLogKeys } from '../../receipts/log-keys.ts'
import { hmacOf, readReceipt } from '../../receipts/verifier/receipt-line.ts'
import type { Home } from '../../store/home.ts'
import type { ReceiptRow, Tables } from '../../store/store.ts'

/** Returns the problem of a receipt, or `undefined` when it is genuine. */
export type AuditSealCheck = (row: ReceiptRow) => Promise<string | undefined>

export async function sealCheck(home: Home, tables: Tables): Promise<AuditSealCheck> {
  const keys = new Map((await tables.logKeys.list()).map(({ kid }) => [kid, macKeyOf(home, kid)]))
  return async ({ id, seq, line, leaf }) => {
    const receipt = readReceipt(Buffer.from(line))
    const key = keys.get(receipt.seal?.kid ?? '')
    const [before] = seq === 0 ? [] : await tables.receipts.scan(seq - 1, 1)
    const isGenuine =
      key !== undefined &&
      receipt.seal?.seq === seq &&
      receipt.entry.leaf.equals(leaf) &&
      hmacOf(receipt, key) === receipt.seal.hmac &&
      (seq === 0 || receipt.seal.prev === Buffer.from(before?.leaf ?? []).toString('hex'))
    if (isGenuine) return undefined
    const isKeyMissing = receipt.seal !== undefined && keys.has(receipt.seal.kid) && key === undefined
    return isKeyMissing ? `cannot check ${id}: its key is missing` : `${id} was changed`
  }
}

/** Returns `undefined` when the key is missing. */
function macKeyOf(home: Home, kid: string) {
  try {
    return loadLogKeys(home, kid).macKey
  } catch {
    return undefined
  }
}
