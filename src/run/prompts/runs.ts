/** Prompt records: begins, ends and finds them for their operator. */
import { CraikError } from '../../errors.ts'
import type { ReceiptRef } from '../../receipts/receipt-writer.ts'
import { checkRecord } from '../../receipts/record-seal.ts'
import type { Home } from '../../store/home.ts'
import type { Store } from '../../store/store.ts'
import { type PromptRun, parsePromptRun } from './prompt-record.ts'
import { beginPrompt, changePrompt, type PromptChange } from './tokens.ts'

const MAX_LISTED = 1000

export function beginRun(store: Store, run: PromptRun): Promise<ReceiptRef> {
  return store.write(beginPrompt, { run })
}

export function changeRun(store: Store, change: PromptChange): Promise<PromptRun> {
  return store.write(changePrompt, change)
}

/** Returns a run of the operator. Throws when its seal does not match. */
export async function getPromptRun(
  deps: { readonly store: Store; readonly home: Home },
  operator: string,
  id: string,
): Promise<PromptRun> {
  const row = await deps.store.read((tables) => tables.promptRuns.get(id))
  const unknown = () =>
    new CraikError('not_found', `unknown run: ${id}`, { hint: 'list runs:  craik run list --prompts' })
  if (row === undefined) throw unknown()
  if (checkRecord(deps.home, `prompt:${id}`, row.document, row.seal) !== 'verified')
    throw new CraikError('tampered', `run ${id} was changed outside Craik`, {
      hint: `list the receipts of the run:  craik receipts list --run ${id}`,
    })
  const run = parsePromptRun(row.document)
  if (run.operator_subject !== operator) throw unknown()
  return run
}

/** Returns the runs, newest first. Runs with a wrong seal are only counted. */
export async function listPromptRuns(
  deps: { readonly store: Store; readonly home: Home },
  operator: string,
): Promise<{ readonly runs: readonly PromptRun[]; readonly damaged: number }> {
  const rows = await deps.store.read((tables) => tables.promptRuns.list({}, MAX_LISTED))
  const whole = rows.filter(
    ({ id, document, seal }) => checkRecord(deps.home, `prompt:${id}`, document, seal) === 'verified',
  )
  const runs = whole.map(({ document }) => parsePromptRun(document))
  return {
    runs: runs.filter(({ operator_subject }) => operator_subject === operator),
    damaged: rows.length - whole.length,
  }
}
