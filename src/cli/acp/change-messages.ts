/** What a turn changed in its copy, in a few words for an editor: how to bring it over, or that it was. */
import { CraikError } from '../../errors.ts'
import type { CliContext } from '../context.ts'
import { printable } from '../output.ts'
import type { EndedRun } from '../prompt/recorded-run.ts'

export interface ChangeMessages {
  /** Markdown; undefined: nothing to tell. */
  readonly words: string | undefined
  /** All of it is in the folder now. */
  readonly isBroughtOver: boolean
}

const NAMED = 8

export async function describeChanges(
  context: CliContext,
  { run, kept: changeSet }: EndedRun,
  isApplied: boolean,
): Promise<ChangeMessages> {
  const changes = changeSet?.record.changes ?? []
  if (changes.length === 0) return { words: undefined, isBroughtOver: false }
  const what = `${count(changes.length)} changed in the sandbox: ${formatPaths(changes.map(({ path }) => path))}.`
  if (!isApplied || run.status !== 'completed') {
    const words = `${what} Apply: \`craik run apply ${run.id}\`; review first: \`craik run diff ${run.id}\`.`
    return { words, isBroughtOver: false }
  }
  try {
    return await applyAndDescribe(context, run.id, what)
  } catch (error) {
    const why = error instanceof CraikError ? error.message : String(error)
    const words = `${what} Not applied (${why}): \`craik run apply ${run.id}\`.`
    return { words, isBroughtOver: false }
  }
}

async function applyAndDescribe(context: CliContext, runId: string, what: string): Promise<ChangeMessages> {
  const { applyRun } = await import('../run-changes/apply-run.ts')
  const { outcomes, counts } = (await applyRun(context, runId, {}, 'craik acp --apply')).result
  const of = (status: string) =>
    formatPaths(outcomes.flatMap((each) => (each.status === status ? [each.change.path] : [])))
  if (counts.conflict > 0)
    return {
      words: `${what} Nothing was applied, because these files changed here too: ${of('conflict')}. Apply the others: \`craik run apply ${runId} --skip-conflicts\`.`,
      isBroughtOver: false,
    }
  const over = counts.applied + counts.already
  return {
    words: [
      `${count(over)} applied${over > 0 ? `: ${formatPaths(outcomes.filter(({ status }) => status === 'applied' || status === 'already').map(({ change }) => change.path))}` : ''}.`,
      ...(counts.left > 0
        ? [`Still in the sandbox: ${of('left')} (\`craik run apply ${runId}\` shows why).`]
        : []),
      ...(counts.failed > 0 ? [`Not written: ${of('failed')}.`] : []),
    ].join(' '),
    isBroughtOver: counts.failed === 0,
  }
}

const count = (files: number) => `${files.toLocaleString('en')} ${files === 1 ? 'file' : 'files'}`

/** Names come from inside: none of them ends the code that it is shown as. */
function formatPaths(paths: readonly string[]): string {
  const shown = paths
    .slice(0, NAMED)
    .map((path) => `\`${printable(path).replaceAll('`', '�').slice(0, 200)}\``)
  const more = paths.length - shown.length
  return `${shown.join(', ')}${more > 0 ? ` and ${more.toLocaleString('en')} more` : ''}`
}
