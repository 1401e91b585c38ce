/** Deletes things by id or name, or all of a kind: when to ask for confirmation, and what to print afterwards. */
import { Command } from 'commander'
import { CraikError } from '../errors.ts'
import { isAgreed } from './confirm.ts'
import type { CliContext } from './context.ts'
import { formatOption, printable, printNote, printRows, printText, resolveFormat } from './output.ts'
import { Progress } from './progress.ts'
import { reportError } from './report-error.ts'

export interface Deletable {
  readonly id: string
  readonly name: string
}

/** Describes a kind of thing that can be deleted: its name, and how to list and remove it. */
export interface Deletion {
  /** The noun as in `craik sandbox delete`; `nouns` is its plural. */
  readonly noun: string
  readonly nouns: string
  /** The end of the question, as in “delete a, b, with everything in them?” */
  readonly loss: string
  list(): Promise<readonly Deletable[]>
  remove(idOrName: string): Promise<Deletable>
}

export interface DeleteOptions {
  readonly all?: boolean
  readonly yes?: boolean
  readonly format?: string
}

/** If there are more, the question names this many and counts the rest. */
const MOST_NAMED = 10

export function deletingCommand(noun: string, description: string): Command {
  return new Command('delete')
    .description(description)
    .argument('[ids...]', 'ids or names')
    .option('--all', `delete every ${noun} of this Craik home, after a confirmation`)
    .option('--yes', 'do not ask for confirmation')
    .addOption(formatOption())
}

/** Deletes the named things at once. `--all` asks for confirmation, unless the user adds `--yes`. */
export async function deleteSelected(
  context: CliContext,
  ids: readonly string[],
  options: DeleteOptions,
  deletion: Deletion,
): Promise<void> {
  const chosen = options.all === true ? await deletion.list() : undefined
  if (chosen !== undefined && chosen.length > 0 && options.yes !== true)
    await confirm(context, chosen, deletion)
  await deleteEach(context, chosen?.map(({ id }) => id) ?? [...new Set(ids)], options, deletion)
}

/** Commands call this first, so that invalid arguments cause no question and no request. */
export function requireChoice(noun: string, ids: readonly string[], options: DeleteOptions): void {
  if (options.all === true && ids.length > 0)
    throw new CraikError('usage', '--all cannot be combined with ids or names', {
      hint: `omit --all or the ids; list what exists:  craik ${noun} list`,
    })
  if (options.all !== true && ids.length === 0)
    throw new CraikError('usage', `no ${noun} to delete: specify ids or names, or --all`, {
      hint: `list what exists:  craik ${noun} list`,
    })
}

/** Continues after a failure. The exit code is that of the first failure. */
async function deleteEach(
  context: CliContext,
  ids: readonly string[],
  options: DeleteOptions,
  { nouns, remove }: Deletion,
): Promise<void> {
  const deleted: Deletable[] = []
  let failed = 0
  {
    using progress = new Progress(context, `${nouns} deleted:`)
    for (const id of ids) {
      await progress.tick(deleted.length)
      try {
        deleted.push(await remove(id))
      } catch (error) {
        context.signal.throwIfAborted()
        const code = await reportError(context, error)
        failed ||= code
      }
    }
  }
  const format = resolveFormat(context, options)
  if (format !== 'table')
    printRows(context, options, deleted, [], ({ id, name }) => ({ id, name, deleted: true }))
  else if (ids.length === 0) printText(context, '  none\n')
  else
    for (const { id, name } of deleted)
      printText(context, `  deleted  ${printable(name)}${id === name ? '' : ` · ${id}`}\n`)
  if (failed !== 0) context.setExitCode(failed)
}

async function confirm(
  context: CliContext,
  chosen: readonly Deletable[],
  { noun, nouns, loss }: Deletion,
): Promise<void> {
  if (!context.stdin.isTTY) {
    const count = chosen.length === 1 ? `1 ${noun}` : `${chosen.length} ${nouns}`
    throw new CraikError(
      'usage',
      `cannot ask for confirmation without a terminal: ${count} would be deleted`,
      {
        hint: `confirm with --yes:  craik ${noun} delete --all --yes`,
      },
    )
  }
  const named = chosen.slice(0, MOST_NAMED).map(({ name }) => printable(name))
  const more = chosen.length - named.length
  const names = more > 0 ? `${named.join(', ')} and ${more} more` : named.join(', ')
  if (await isAgreed(context, `  delete ${names}${loss}? [y/N] `)) return
  printNote(context, '  nothing was deleted')
  throw new CraikError('interrupted', 'not confirmed; nothing was deleted (--yes confirms)')
}
