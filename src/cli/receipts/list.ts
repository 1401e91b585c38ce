/** `receipts list`, `show` and `tail`: print receipts of the log. */
import { setTimeout as sleep } from 'node:timers/promises'
import { Command, InvalidArgumentError } from 'commander'
import { CraikError } from '../../errors.ts'
import type { Json } from '../../lib/canonical-json.ts'
import { parseReference } from '../../lib/ids.ts'
import { quoteArgument } from '../../lib/shlex.ts'
import type { Receipt } from '../../receipts/schema.ts'
import type { ReceiptRow } from '../../store/store.ts'
import type { CliContext } from '../context.ts'
import {
  type Column,
  formatOption,
  outputColumns,
  printable,
  printNote,
  printRecord,
  printRows,
  resolveFormat,
  shortenCell,
  table,
} from '../output.ts'
import { describeReceipt } from './describe.ts'
import { addFilters, parseFilter } from './filters.ts'

const DEFAULT_LIMIT = 50
const TAIL_POLL_MS = 200

const LIST_HELP = `
An action that takes time has two receipts: one when it begins (shown as begun,
which --status cannot select), and one for its result.

A session of craik agent has tasks; each attempt at a task is a run; a handoff
is a run's report.

Kinds: provider_action is a call of a model, sandbox_action an operation on a
sandbox, egress an allowed connection to a host or a change of an egress rule,
shell_invocation a command of craik shell. A denied action has the kind denial
instead, so --kind egress lists no denied connections; a call that a budget or
quota denied has the kind budget. environment_decision (a historical name) is a
change of Craik's own records, such as policies, secrets and sessions. Receipts
of the other kinds are about grants, logins and MCP.

Statuses: passed: done. failed: ended with an error. denied: forbidden by
policy, a rule, a budget or a quota. blocked: refused for another reason, such
as a provider in cooldown. skipped: cancelled before it began. indeterminate:
the result is unknown, because the process died.

Example:
  craik receipts list --status denied --since 24h
`

export function listReceiptsCommand(context: CliContext): Command {
  return addFilters(new Command('list').description('list receipts, newest first'))
    .option('--limit <n>', 'maximum number of receipts', positive, DEFAULT_LIMIT)
    .option(
      '--before <number>',
      'only receipts before this number (column #), for the next page',
      wholeNumber,
    )
    .addOption(formatOption())
    .addHelpText('after', LIST_HELP)
    .action(async (flags, command: Command) => {
      const filter = parseFilter(flags, context.clock.nowMs())
      const store = await context.store()
      const rows = await store.read((tables) => tables.receipts.find(filter, flags.limit + 1, flags.before))
      const shown = rows.slice(0, flags.limit)
      printRows(context, flags, shown, COLUMNS, parse)
      if (rows.length > shown.length && resolveFormat(context, flags) === 'table') {
        const provided = formatSelectedFlags(command, ['before'])
        printNote(
          context,
          `  older receipts:  craik receipts list${provided} --before ${shown.at(-1)!.seq}\n`,
        )
      }
    })
}

export function showReceiptCommand(context: CliContext): Command {
  return new Command('show')
    .description('show a receipt in full')
    .argument('<id>', 'id of the receipt, or its number (column # of craik receipts list)')
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik receipts show 0\n')
    .action(async (id: string, flags) => {
      const store = await context.store()
      const [row, other] = await store.read(async (tables) => {
        const found = await findReceipt(tables.receipts, id)
        if (found.beginId !== null) return [found, await tables.receipts.get(found.beginId)]
        return [found, found.phase === 'begin' ? await tables.receipts.endOf(found.id) : undefined]
      })
      printRecord(context, flags, parse(row), () => describeReceipt(row, other))
    })
}

export function tailCommand(context: CliContext): Command {
  return addFilters(
    new Command('tail').description('show the newest receipts, and with --follow each new one'),
  )
    .option('-n, --lines <n>', 'number of receipts to start with', wholeNumber, 10)
    .option('-f, --follow', 'print new receipts until Ctrl-C')
    .addOption(formatOption())
    .addHelpText(
      'after',
      '\nKinds and statuses are explained in craik receipts list --help.\n\nExample:\n  craik receipts tail --follow --kind denial\n',
    )
    .action(async (flags) => {
      const filter = parseFilter(flags, context.clock.nowMs())
      const store = await context.store()
      const columns = outputColumns(context, flags)
      const isWhole = !Number.isFinite(columns)
      const print = (rows: readonly ReceiptRow[], first: boolean) => {
        if (resolveFormat(context, flags) !== 'table') {
          for (const row of rows) context.stdout.write(`${row.line}\n`)
        } else if (rows.length > 0) {
          context.stdout.write(
            table(isWhole ? WHOLE_COLUMNS : FIXED_COLUMNS, rows, columns)
              .split('\n')
              .slice(first ? 0 : 1)
              .join('\n'),
          )
        }
      }
      // Reads both in one snapshot, so that a receipt that arrives meanwhile is not lost.
      let [rows, seen] = await store.read(async ({ receipts }) => [
        await receipts.find(filter, flags.lines),
        (await receipts.last())?.seq ?? -1,
      ])
      print(rows.toReversed(), true)
      while (flags.follow && !context.signal.aborted) {
        await sleep(TAIL_POLL_MS, undefined, { signal: context.signal }).catch(() => {})
        const newest = (await store.read((tables) => tables.receipts.last()))?.seq ?? -1
        if (newest === seen) continue
        rows = await store.read((tables) => tables.receipts.find(filter, newest - seen, newest + 1))
        print(rows.filter((row) => row.seq > seen).toReversed(), false)
        seen = newest
      }
    })
}

/** Finds a receipt by its id or by its number, because `verify` names receipts by their number. */
export async function findReceipt(
  receipts: {
    get(id: string): Promise<ReceiptRow | undefined>
    scan(from: number, n: number): Promise<readonly ReceiptRow[]>
  },
  id: string,
): Promise<ReceiptRow> {
  parseReference(id, 'receipt')
  const number = /^\d{1,15}$/.test(id) ? Number(id) : undefined
  const row = number === undefined ? await receipts.get(id) : (await receipts.scan(number, 1)).at(0)
  if (row === undefined || (number !== undefined && row.seq !== number)) {
    throw new CraikError('not_found', `unknown receipt: ${id}`, {
      hint: 'list receipts:  craik receipts list',
    })
  }
  return row
}

const body = (row: ReceiptRow) => (JSON.parse(row.line) as Receipt).body
const parse = (row: ReceiptRow): Json => JSON.parse(row.line) as Json

const COLUMNS: readonly Column<ReceiptRow>[] = [
  { title: '#', value: (row) => String(row.seq) },
  { title: 'time (UTC)', value: (row) => new Date(row.atMs).toISOString().slice(0, 19).replace('T', ' ') },
  { title: 'kind', value: (row) => row.kind, dropOrder: 2 },
  { title: 'status', value: (row) => row.status ?? 'begun' },
  { title: 'capability', value: (row) => body(row).capability },
  { title: 'target', value: (row) => body(row).target ?? '–', canShorten: true },
  { title: 'rule', value: (row) => body(row).decision?.rule ?? '–', dropOrder: 3 },
  // The number identifies a receipt too.
  { title: 'id', value: (row) => row.id, dropOrder: 1 },
]

/**
 * `tail` prints each line at once, so a column cannot have the width of its widest cell. Its columns have fixed widths.
 */
const WIDTHS = [6, 19, 20, 9, 16, 20, 24, 30]
const padColumns = (resize: (text: string, width: number) => string) =>
  COLUMNS.map(
    (column, i): Column<ReceiptRow> => ({
      ...column,
      title: column.title.padEnd(WIDTHS[i]!),
      value: (row) => resize(printable(column.value(row)), WIDTHS[i]!).padEnd(WIDTHS[i]!),
    }),
  )
const FIXED_COLUMNS = padColumns(shortenCell)
const WHOLE_COLUMNS = padColumns((text) => text)

/** Formats the flags of this call, so that the user can type them again. */
function formatSelectedFlags(command: Command, except: readonly string[]): string {
  return command.options
    .filter((option) => command.getOptionValueSource(option.attributeName()) === 'cli')
    .filter((option) => !except.includes(option.attributeName()))
    .map(
      (option) => ` ${option.long} ${quoteArgument(String(command.getOptionValue(option.attributeName())))}`,
    )
    .join('')
}

function wholeNumber(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError('expected a whole number')
  return Number(text)
}

function positive(text: string): number {
  const number = wholeNumber(text)
  if (number === 0) throw new InvalidArgumentError('expected a whole number of 1 or more')
  return number
}
