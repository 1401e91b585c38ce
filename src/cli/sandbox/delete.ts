/** `craik sandbox delete`: ends what runs in sandboxes, and removes them with everything in them. */
import { createInterface } from 'node:readline/promises'
import { Command } from 'commander'
import { CraikError } from '../../errors.ts'
import type { ListedSandboxBody } from '../../operator/api/bodies.ts'
import type { ApiClient } from '../../sdk/client.ts'
import type { CliContext } from '../context.ts'
import { chosenFormat, formatOption, printable, printRows } from '../output.ts'
import { Progress } from '../progress.ts'
import { reportError } from '../report-error.ts'
import { connect } from './connect.ts'

interface DeleteOptions {
  readonly all?: boolean
  readonly yes?: boolean
  readonly format?: string
}

export function deleteCommand(context: CliContext): Command {
  return new Command('delete')
    .description('end what runs in sandboxes, and remove them with their workspace copies')
    .argument('[ids...]', 'ids or names')
    .option('--all', 'every sandbox of this home; asks first')
    .option('--yes', 'do not ask')
    .addOption(formatOption())
    .addHelpText(
      'after',
      '\nA folder that was used in place stays as it is.\n\nExample:\n  craik sandbox delete parser\n',
    )
    .action(async (ids: readonly string[], options: DeleteOptions) => {
      if (options.all === true ? ids.length > 0 : ids.length === 0)
        throw new CraikError('usage', 'give ids or names, or --all', { hint: 'see: craik sandbox list' })
      using client = await connect(context)
      const chosen = options.all ? await client.sandboxes.list({ signal: context.signal }) : undefined
      if (chosen !== undefined && chosen.length > 0 && !options.yes) await confirm(context, chosen)
      await deleteEach(context, client, chosen?.map(({ id }) => id) ?? [...new Set(ids)], options)
    })
}

interface Deleted {
  readonly id: string
  readonly name: string
}

/** One that cannot be deleted does not keep the others. The exit code is that of the first failure. */
async function deleteEach(
  context: CliContext,
  client: ApiClient,
  ids: readonly string[],
  options: DeleteOptions,
): Promise<void> {
  const deleted: Deleted[] = []
  let failed = 0
  {
    using progress = new Progress(context, 'sandboxes deleted:')
    for (const id of ids) {
      await progress.tick(deleted.length)
      try {
        const sandbox = await find(context, client, id)
        await client.sandboxes.delete(sandbox.id, { signal: context.signal })
        deleted.push({ id: sandbox.id, name: sandbox.name })
      } catch (error) {
        context.signal.throwIfAborted()
        const code = await reportError(context, error)
        failed ||= code
      }
    }
  }
  if (chosenFormat(context, options) === 'table')
    for (const { id, name } of deleted) context.stdout.write(`  deleted  ${printable(name)} · ${id}\n`)
  else printRows(context, options, deleted, [], ({ id, name }) => ({ id, name, deleted: true }))
  if (failed !== 0) context.setExitCode(failed)
}

/** One whose record is damaged is not shown, but it is listed. */
async function find({ signal }: CliContext, client: ApiClient, idOrName: string): Promise<Deleted> {
  try {
    return await client.sandboxes.get(idOrName, { signal })
  } catch (error) {
    if (!(error instanceof CraikError) || !['tampered', 'store_damaged'].includes(error.code)) throw error
    const listed = await client.sandboxes.list({ signal })
    const found = listed.find(({ id, name }) => id === idOrName || name === idOrName)
    if (found?.state === 'damaged') return found
    throw error
  }
}

async function confirm(context: CliContext, sandboxes: readonly ListedSandboxBody[]): Promise<void> {
  if (!context.stdin.isTTY)
    throw new CraikError('usage', `${sandboxes.length} sandboxes would be deleted, and nobody can be asked`, {
      hint: 'craik sandbox delete --all --yes',
    })
  const names = sandboxes.map(({ name }) => printable(name)).join(', ')
  const question = createInterface({ input: context.stdin, output: context.stderr })
  try {
    const answer = await question.question(`  delete ${names}, with everything in them? [y/N] `, {
      signal: context.signal,
    })
    if (!/^y(es)?$/i.test(answer.trim())) throw new CraikError('interrupted', 'not confirmed')
  } finally {
    question.close()
  }
}
