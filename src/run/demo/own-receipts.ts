/** Checks the newest part of the log from a given receipt on: the chain, every HMAC and every decision. */
import { loadLogKeys } from '../../receipts/log-keys.ts'
import { Chain } from '../../receipts/verifier/chain.ts'
import { readReceipt } from '../../receipts/verifier/receipt-line.ts'
import type { Home } from '../../store/home.ts'
import type { Store, Tables } from '../../store/store.ts'
import { replayLog } from '../replay-log.ts'

export interface OwnReceipts {
  /** False when a check failed. `problems` gives the reasons. */
  readonly holds: boolean
  /** The number of checked receipts, including those of other processes in between, which belong to the same chain. */
  readonly receipts: number
  readonly decisions: number
  readonly recomputed: number
  readonly notReplayable: number
  readonly problems: readonly string[]
}

const PAGE = 512

/** Returns the number of the next receipt. */
export function nextReceipt(store: Store): Promise<number> {
  return store.read(async (tables) => ((await tables.receipts.last())?.seq ?? -1) + 1)
}

export function checkReceiptsSince(
  deps: { readonly store: Store; readonly home: Home },
  from: number,
): Promise<OwnReceipts> {
  return deps.store.read(async (tables) => {
    const keys = await tables.logKeys.list()
    const all = keys.map(({ kid }) => loadLogKeys(deps.home, kid))
    const chain = new Chain((kid) => all.find((key) => key.kid === kid)?.macKey)
    const problems: string[] = []
    const lines: string[] = []
    let expected = Math.max(0, from - 1)
    for await (const { line, leaf } of rowsFrom(tables, expected)) {
      const receipt = readReceipt(Buffer.from(line))
      // The previous receipt is read only for the first link.
      if (expected >= from) {
        lines.push(line)
        const doubt = chain.inspect(receipt, [], expected)
        if (doubt !== undefined) problems.push(doubt.detail)
        else if (!receipt.entry.leaf.equals(leaf))
          problems.push(`the hash of receipt ${expected} does not match`)
      }
      chain.extend(receipt)
      expected++
    }
    if (chain.unchecked > 0) problems.push(`${chain.unchecked} receipts are sealed by a missing key`)
    const replay =
      problems.length > 0 ? undefined : await replayLog(withDocuments(tables, lines), async () => {})
    for (const { id, detail } of replay?.differ ?? []) problems.push(`${id}: ${detail}`)
    return {
      holds: problems.length === 0,
      receipts: lines.length,
      decisions: replay?.decisions ?? 0,
      recomputed: replay?.agree ?? 0,
      notReplayable: replay?.notReplayable ?? 0,
      problems,
    }
  })
}

async function* rowsFrom(tables: Tables, from: number) {
  for (let next = from; ; next += PAGE) {
    const rows = await tables.receipts.scan(next, PAGE)
    yield* rows
    if (rows.length < PAGE) return
  }
}

async function* withDocuments(tables: Tables, lines: readonly string[]): AsyncGenerator<string> {
  for (const { digest, mediaType, text } of await tables.documents.list())
    yield JSON.stringify({ _document: { digest, media_type: mediaType, text } })
  yield* lines
}
