/** Prompts as they are kept: begun, ended, and found again by who began them. */
import { CraikError } from '../../errors.ts'
import type { ReceiptRef } from '../../receipts/receipt-writer.ts'
import { checkRecord } from '../../receipts/record-seal.ts'
import type { Home } from '../../store/home.ts'
import type { Store } from '../../store/store.ts'
import { type PromptRun, parsePromptRun } from './record.ts'
import { beginPrompt, changePrompt, type PromptChange } from './tokens.ts'

const MAX_LISTED = 1000

export function beginRun(store: Store, run: PromptRun): Promise<ReceiptRef> {
  return store.write(beginPrompt, { run })
}

export function changeRun(store: Store, change: PromptChange): Promise<PromptRun> {
  return store.write(changePrompt, change)
}

/** One of the operator's own, whose seal fits. */
export async function getPromptRun(
  place: { readonly store: Store; readonly home: Home },
  operator: string,
  id: string,
): Promise<PromptRun> {
  const row = await place.store.read((tables) => tables.promptRuns.get(id))
  const unknown = () =>
    new CraikError('not_found', `unknown run: ${id}`, { hint: 'list runs:  craik run list --prompts' })
  if (row === undefined) throw unknown()
  if (checkRecord(place.home, `prompt:${id}`, row.document, row.seal) !== 'verified')
    throw new CraikError('tampered', `run ${id} was changed outside Craik`, {
      hint: `list its receipts:  craik receipts list --run ${id}`,
    })
  const run = parsePromptRun(row.document)
  if (run.operator_subject !== operator) throw unknown()
  return run
}

/** Newest first. Those that do not fit their seal are left out, and counted. */
export async function listPromptRuns(
  place: { readonly store: Store; readonly home: Home },
  operator: string,
): Promise<{ readonly runs: readonly PromptRun[]; readonly damaged: number }> {
  const rows = await place.store.read((tables) => tables.promptRuns.list({}, MAX_LISTED))
  const whole = rows.filter(
    ({ id, document, seal }) => checkRecord(place.home, `prompt:${id}`, document, seal) === 'verified',
  )
  const runs = whole.map(({ document }) => parsePromptRun(document))
  return {
    runs: runs.filter(({ operator_subject }) => operator_subject === operator),
    damaged: rows.length - whole.length,
  }
}
