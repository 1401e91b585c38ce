/** Checks the newest part of the log, from a given receipt on: the chain, every HMAC, every decision again. */
import { loadLogKeys } from '../../receipts/keys.ts'
import { Chain } from '../../receipts/verifier/chain.ts'
import { readReceipt } from '../../receipts/verifier/receipt-line.ts'
import type { Home } from '../../store/home.ts'
import type { Store, Tables } from '../../store/store.ts'
import { replayLog } from '../replay-log.ts'

export interface OwnReceipts {
  /** False: something contradicts; `problems` says what. */
  readonly holds: boolean
  /** Read and checked: those of others that came in between are links of the same chain. */
  readonly receipts: number
  readonly decisions: number
  readonly recomputed: number
  readonly notReplayable: number
  readonly problems: readonly string[]
}

const PAGE = 512

/** Where a log stands: what is written from now on begins here. */
export function nextReceipt(store: Store): Promise<number> {
  return store.read(async (tables) => ((await tables.receipts.last())?.seq ?? -1) + 1)
}

export function checkReceiptsSince(
  place: { readonly store: Store; readonly home: Home },
  from: number,
): Promise<OwnReceipts> {
  return place.store.read(async (tables) => {
    const keys = await tables.logKeys.list()
    const all = keys.map(({ kid }) => loadLogKeys(place.home, kid))
    const chain = new Chain((kid) => all.find((key) => key.kid === kid)?.macKey)
    const problems: string[] = []
    const lines: string[] = []
    let expected = Math.max(0, from - 1)
    for await (const { line, leaf } of rowsFrom(tables, expected)) {
      const receipt = readReceipt(Buffer.from(line))
      // The one before is only what the first of these links to.
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
