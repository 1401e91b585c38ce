/**
 * Describes for an editor what a prompt changed in its copy, and how to apply the changes or whether Craik applied
 * them.
 */
import { CraikError } from '../../errors.ts'
import type { CliContext } from '../context.ts'
import { printable } from '../output.ts'
import type { EndedPromptRun } from '../prompt/recorded-run.ts'

export interface ChangeMessages {
  /** Markdown, or undefined if nothing changed. */
  readonly words: string | undefined
  /** True if the folder contains all changes now. */
  readonly isBroughtOver: boolean
}

const NAMED = 8

export async function describeChanges(
  context: CliContext,
  { run, kept: changeSet }: EndedPromptRun,
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

/** The names come from the sandbox, so a name must not be able to close its own code span. */
function formatPaths(paths: readonly string[]): string {
  const shown = paths
    .slice(0, NAMED)
    .map((path) => `\`${printable(path).replaceAll('`', '�').slice(0, 200)}\``)
  const more = paths.length - shown.length
  return `${shown.join(', ')}${more > 0 ? ` and ${more.toLocaleString('en')} more` : ''}`
}
