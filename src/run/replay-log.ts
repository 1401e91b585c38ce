/** Replays every decision in a log from the inputs and documents recorded with it. */
import { isEgressDecision, replayEgressDecision } from '../gateway/egress/replay-egress.ts'
import { replayDecision } from '../policy/replay.ts'
import { isReadinessDecision, replayReadiness } from '../providers/dispatch/readiness.ts'
import { isFailoverDecision, replayFailover } from '../providers/failover/failover-record.ts'
import { isCall } from '../providers/ledger/call-pairing.ts'
import { LedgerReplay, type LedgerReport } from '../providers/ledger/replay-ledger.ts'
import type { Receipt } from '../receipts/schema.ts'
import { isSandboxDecision, replaySandboxDecision } from '../sandboxes/replay-sandbox.ts'

export interface LogReplay {
  readonly decisions: number
  readonly agree: number
  readonly notReplayable: number
  /** The kinds of these receipts, most frequent first. */
  readonly notReplayableKinds: readonly NotReplayable[]
  readonly differ: readonly { readonly seq: number; readonly id: string; readonly detail: string }[]
  /** The balance of every budget and the calls it denied, computed from the receipts alone. */
  readonly ledger: LedgerReport
}

interface NotReplayable {
  readonly kind: string
  readonly count: number
  /** The first receipts of this kind. */
  readonly receiptIds: readonly string[]
}

/** Further ids are counted and not listed. */
const MAX_IDS = 20

/** Further differences are not listed, because these suffice to show a problem. */
const MAX_LISTED = 100

export async function replayLog(
  lines: AsyncIterable<string>,
  onProgress: (receipts: number) => Promise<void>,
): Promise<LogReplay> {
  const documents = new Map<string, string>()
  const differ: LogReplay['differ'][number][] = []
  let [decisions, agree, notReplayable, read] = [0, 0, 0, 0]
  const kinds = new Map<string, { count: number; receiptIds: string[] }>()
  const cannotReplay = ({ kind, id }: Receipt['body']) => {
    notReplayable++
    const seen = kinds.get(kind) ?? { count: 0, receiptIds: [] }
    kinds.set(kind, seen)
    seen.count++
    if (seen.receiptIds.length < MAX_IDS) seen.receiptIds.push(id)
  }
  let ledger: LedgerReplay | undefined
  const differs = (seq: number, id: string, detail: string) => {
    if (differ.length < MAX_LISTED) differ.push({ seq, id, detail })
  }
  for await (const line of lines) {
    if (++read % 500 === 0) await onProgress(read)
    if (line.startsWith('{"_document"')) {
      const { _document: document } = JSON.parse(line) as { _document: { digest: string; text: string } }
      documents.set(document.digest, document.text)
    }
    if (line.startsWith('{"_')) continue
    // Every line is parsed, because a text search would miss a line with an extra blank.
    const { body, seal } = parseReceipt(line)
    ledger ??= new LedgerReplay(seal.seq, differs)
    if (isCall(body)) ledger.call(body, seal)
    if (body.kind === 'budget') {
      const outcome = ledger.receipt(body, seal)
      if (body.decision !== undefined) decisions++
      if (outcome === 'not_replayable') cannotReplay(body)
      else if (outcome !== 'agrees') differs(seal.seq, body.id, outcome.differs)
      else if (body.decision !== undefined) agree++
      continue
    }
    if (body.decision === undefined) continue
    decisions++
    const outcome = await replayerOf(body)(body, (digest) => documents.get(digest))
    if (outcome === 'agrees') agree++
    else if (outcome === 'not_replayable') cannotReplay(body)
    else {
      const detail =
        outcome === 'differs'
          ? `recorded ${body.decision.effect} by ${body.decision.rule}; recomputing gives another result`
          : 'the policy of this decision is not in the file'
      differs(seal.seq, body.id, detail)
    }
  }
  ledger ??= new LedgerReplay(0, differs)
  const report = ledger.finish()
  return {
    decisions,
    agree,
    notReplayable,
    notReplayableKinds: [...kinds]
      .map(([kind, seen]) => ({ kind, ...seen }))
      .sort((a, b) => b.count - a.count),
    differ: differ.sort((a, b) => a.seq - b.seq),
    ledger: report,
  }
}

/** Only their seal protects receipts that no checkpoint covers, so a body can contain anything. */
function parseReceipt(line: string): Receipt {
  const { body, seal } = (JSON.parse(line) ?? {}) as Partial<Receipt>
  if (
    typeof body?.links !== 'object' ||
    body.links === null ||
    typeof body.id !== 'string' ||
    seal === undefined
  )
    throw new SyntaxError('not a receipt')
  return { body, seal }
}

function replayerOf(body: Receipt['body']): typeof replayDecision {
  if (isSandboxDecision(body)) return replaySandboxDecision
  if (isEgressDecision(body)) return replayEgressDecision
  if (isReadinessDecision(body)) return replayReadiness
  return isFailoverDecision(body) ? replayFailover : replayDecision
}
