/** Compares the columns that find receipts with the sealed lines that they were taken from. */
import type { Receipt } from '../../receipts/schema.ts'
import type { VerifierReport } from '../../receipts/verifier/report.ts'
import type { ReceiptRow, Tables } from '../../store/store.ts'

const PAGE = 512

/**
 * Returns the first receipt whose columns differ from its line, so that a list would show it incorrectly. The lines are
 * verified already.
 */
export async function findEditedColumn(
  tables: Tables,
  onProgress: (receipts: number) => Promise<void>,
): Promise<VerifierReport['finding']> {
  const hidden = await tables.receipts.firstUnindexed((await tables.tree.lastCheckpoint())?.size ?? 0)
  if (hidden !== undefined)
    return {
      problem: 'edited',
      detail: `receipt ${hidden} was hidden: a search by its links no longer finds it`,
      seq: hidden,
    }
  for (let from = 0; ; from += PAGE) {
    const rows = await tables.receipts.scan(from, PAGE)
    for (const row of rows) {
      const column = detectEditedColumn(row)
      if (column === undefined) continue
      const detail = `the index of receipt ${row.seq} was edited: its ${column} differs from the receipt`
      return { problem: 'edited', detail, seq: row.seq, id: row.id }
    }
    if (rows.length < PAGE) return undefined
    await onProgress(from + PAGE)
  }
}

function detectEditedColumn(row: ReceiptRow): string | undefined {
  const { body, seal } = JSON.parse(row.line) as Receipt
  const { links } = body
  const sealed: Omit<ReceiptRow, 'leaf' | 'line'> = {
    seq: seal.seq,
    id: body.id,
    kind: body.kind,
    phase: body.phase,
    status: body.status ?? null,
    sessionId: links.session_id ?? null,
    taskId: links.task_id ?? null,
    runId: links.run_id ?? null,
    handoffId: links.handoff_id ?? null,
    policyEnvelopeId: links.policy_envelope_id ?? null,
    beginId: (body.begin_id as ReceiptRow['beginId']) ?? null,
    atMs: Date.parse(seal.at),
  }
  return (Object.keys(sealed) as (keyof typeof sealed)[]).find((name) => row[name] !== sealed[name])
}
