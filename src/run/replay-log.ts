/** Recomputes every decision in a log from the inputs and documents that were recorded with it. */
import { replayDecision } from '../policy/replay.ts'
import type { Receipt } from '../receipts/schema.ts'

export interface Replay {
  readonly decisions: number
  readonly agree: number
  readonly notReplayable: number
  readonly differ: readonly { readonly seq: number; readonly id: string; readonly detail: string }[]
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
  for await (const line of lines) {
    if (++read % 500 === 0) await onProgress(read)
    if (line.startsWith('{"_document"')) {
      const { _document: document } = JSON.parse(line) as { _document: { digest: string; text: string } }
      documents.set(document.digest, document.text)
    }
    if (!line.includes('"decision":{')) continue
    const { body, seal } = JSON.parse(line) as Receipt
    if (body.decision === undefined) continue
    decisions++
    const outcome = await replayDecision(body, (digest) => documents.get(digest))
    if (outcome === 'agrees') agree++
    else if (outcome === 'not_replayable') notReplayable++
    else if (differ.length < MAX_LISTED) {
      const detail =
        outcome === 'differs'
          ? `it says ${body.decision.effect} by ${body.decision.rule}, and recomputing it comes out differently`
          : 'the policy it was decided with is not in the file'
      differ.push({ seq: seal.seq, id: body.id, detail })
    }
  }
  return { decisions, agree, notReplayable, differ }
}
