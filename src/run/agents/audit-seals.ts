/** Whether a row of the log is what Craik sealed: by the home's own keys, unchanged, linked to the receipt before it. */
import { loadLogKeys } from '../../receipts/keys.ts'
import { hmacOf, readReceipt } from '../../receipts/verifier/receipt-line.ts'
import type { Home } from '../../store/home.ts'
import type { ReceiptRow, Tables } from '../../store/store.ts'

/** What is wrong with a receipt; undefined when it is genuine. */
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

/** Undefined when it is not here. */
function macKeyOf(home: Home, kid: string) {
  try {
    return loadLogKeys(home, kid).macKey
  } catch {
    return undefined
  }
}
