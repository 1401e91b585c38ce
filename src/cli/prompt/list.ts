/** Lists and shows prompts for `craik run`. */
import { CraikError } from '../../errors.ts'
import { ownerState } from '../../lib/owner.ts'
import type { PromptRun } from '../../run/prompts/prompt-record.ts'
import { getPromptRun, listPromptRuns } from '../../run/prompts/runs.ts'
import type { CliContext } from '../context.ts'
import { type Column, formatMinute, printable, printNote, printRecord, printRows } from '../output.ts'

interface Flags {
  readonly format?: string
}

/** Returns `interrupted` for a run whose process is gone, even if its record says that it is running. */
export function promptStatus(run: PromptRun): string {
  return run.status === 'running' && ownerState(run.owner) === 'dead' ? 'interrupted' : run.status
}

const COLUMNS: readonly Column<PromptRun>[] = [
  { title: 'run', value: ({ id }) => id },
  { title: 'harness', value: ({ harness }) => harness },
  { title: 'status', value: promptStatus },
  {
    title: 'changed',
    value: ({ changed_files }) => (changed_files === null ? '–' : String(changed_files)),
    dropOrder: 3,
  },
  { title: 'started', value: ({ created_at }) => formatMinute(Date.parse(created_at)), dropOrder: 4 },
  { title: 'sandbox', value: ({ sandbox_id }) => sandbox_id, dropOrder: 1 },
  {
    title: 'workspace',
    value: ({ workspace }) => printable(workspace ?? '–'),
    dropOrder: 2,
    canShorten: true,
  },
]

export async function listPrompts(context: CliContext, flags: Flags): Promise<void> {
  const deps = { store: await context.store(), home: context.home }
  const { runs, damaged } = await listPromptRuns(deps, await context.operator())
  printRows(context, flags, runs, COLUMNS, jsonOf)
  if (damaged > 0)
    printNote(context, `craik: runs not listed, because something outside Craik changed them: ${damaged}\n`)
}

/** Returns one of the operator's own prompts, or undefined if none has that id. */
export async function findPrompt(context: CliContext, id: string): Promise<PromptRun | undefined> {
  const deps = { store: await context.store(), home: context.home }
  return getPromptRun(deps, await context.operator(), id).catch((error: unknown) => {
    if (error instanceof CraikError && error.code === 'not_found') return undefined
    throw error
  })
}

/**
 * Tells users who list other runs that they also have prompts. It prints to stderr, so that programs get only the list.
 */
export async function printPrompts(context: CliContext): Promise<void> {
  const deps = { store: await context.store(), home: context.home }
  const { runs } = await listPromptRuns(deps, await context.operator())
  if (runs.length === 0) return
  const are = runs.length === 1 ? '1 prompt is' : `${runs.length.toLocaleString('en')} prompts are`
  printNote(context, `  ${are} listed with:  craik run list --prompts\n`)
}

/** Returns false if no prompt has that id. */
export async function showPrompt(context: CliContext, flags: Flags, id: string): Promise<boolean> {
  const run = await findPrompt(context, id)
  if (run === undefined) return false
  printRecord(context, flags, jsonOf(run), () =>
    Object.entries(jsonOf(run))
      .map(([name, value]) => `  ${name.padEnd(20)}${printable(String(value ?? '–'))}\n`)
      .join(''),
  )
  return true
}

function jsonOf(run: PromptRun) {
  const { owner: _, ...shown } = run
  return { ...shown, status: promptStatus(run) }
}
