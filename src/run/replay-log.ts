/** Recomputes every decision in a log from the inputs and documents that were recorded with it. */
import { replayDecision } from '../policy/replay.ts'
import { isReadinessDecision, replayReadiness } from '../providers/dispatch/readiness.ts'
import { isFailoverDecision, replayFailover } from '../providers/failover/record.ts'
import { LedgerReplay, type LedgerReport } from '../providers/ledger/replay.ts'
import type { Receipt } from '../receipts/schema.ts'
import { isSandboxDecision, replaySandboxDecision } from '../sandboxes/replay.ts'

export interface Replay {
  readonly decisions: number
  readonly agree: number
  readonly notReplayable: number
  readonly differ: readonly { readonly seq: number; readonly id: string; readonly detail: string }[]
  /** What every budget came to, rebuilt from the receipts alone. */
  readonly ledger: LedgerReport
}

/** Differences beyond this are counted, not listed. */
const MAX_LISTED = 100

export async function replayLog(
  lines: AsyncIterable<string>,
  onProgress: (receipts: number) => Promise<void>,
): Promise<Replay> {
  const documents = new Map<string, string>()
  const differ: Replay['differ'][number][] = []
  let [decisions, agree, notReplayable, read] = [0, 0, 0, 0]
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
    if (!line.startsWith('{"_')) ledger ??= new LedgerReplay(Number(/"seq":(\d+)\}\}$/.exec(line)?.[1] ?? 0))
    if (!line.includes('"decision":{') && !line.includes('"kind":"budget"')) continue
    const { body, seal } = JSON.parse(line) as Receipt
    if (body.kind === 'budget' && ledger !== undefined) {
      const outcome = ledger.receipt(body, seal)
      if (body.decision !== undefined) decisions++
      if (outcome === 'not_replayable') notReplayable++
      else if (outcome !== 'agrees') differs(seal.seq, body.id, outcome.differs)
      else if (body.decision !== undefined) agree++
      continue
    }
    if (body.decision === undefined) continue
    decisions++
    const outcome = await replayerOf(body)(body, (digest) => documents.get(digest))
    if (outcome === 'agrees') agree++
    else if (outcome === 'not_replayable') notReplayable++
    else {
      const detail =
        outcome === 'differs'
          ? `it says ${body.decision.effect} by ${body.decision.rule}, and recomputing it comes out differently`
          : 'the policy it was decided with is not in the file'
      differs(seal.seq, body.id, detail)
    }
  }
  const report = ledger?.report() ?? { budgets: [], notRebuilt: [] }
  return { decisions, agree, notReplayable, differ, ledger: report }
}

function replayerOf(body: Receipt['body']): typeof replayDecision {
  if (isSandboxDecision(body)) return replaySandboxDecision
  if (isReadinessDecision(body)) return replayReadiness
  return isFailoverDecision(body) ? replayFailover : replayDecision
}
