/** How results look: a table for people, JSON for programs, the same facts in both. */
import { Option } from 'commander'
import type { Json } from '../lib/canonical-json.ts'
import type { CliContext } from './context.ts'

type Format = 'table' | 'json' | 'jsonl'

export interface Column<Row> {
  readonly title: string
  readonly value: (row: Row) => string
  /** Where all columns are too wide for the terminal, those that have a number go, the lowest first. */
  readonly goes?: number
  /** It may be cut at its end, so that others can stay. */
  readonly shortens?: true
}

/** A column that shortens keeps so much before others go, and so much at the very least. */
const SHORT = 20
const SHORTEST = 8

const FORMAT_HELP = 'output format; --json is --format json (default: table on a terminal, else json)'
/** Of commands whose results programs read first. */
export const JSON_FIRST_HELP = 'output format; --json is --format json (default: json)'

/** `--format`, as every command that prints a result has it. Such a command accepts `--json` too: see `run-command.ts`. */
export function formatOption(): Option {
  return new Option('--format <format>', FORMAT_HELP).choices(['table', 'json', 'jsonl'])
}

export function resolveFormat(context: CliContext, options: { readonly format?: string }): Format {
  return (options.format as Format | undefined) ?? (context.stdout.isTTY ? 'table' : 'json')
}

/** Prints rows in the chosen format. `toJson` gives the facts that a program gets. */
export function printRows<Row>(
  context: CliContext,
  options: { readonly format?: string },
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  toJson: (row: Row) => Json,
): void {
  const format = resolveFormat(context, options)
  if (format === 'json') context.stdout.write(`${prettyJson(rows.map(toJson))}\n`)
  else if (format === 'jsonl')
    for (const row of rows) context.stdout.write(`${JSON.stringify(toJson(row))}\n`)
  else if (rows.length === 0) context.stdout.write('  none\n')
  else context.stdout.write(table(columns, rows, context.stdout.columns))
}

/** Prints one record: `human` on a terminal, JSON otherwise. */
export function printRecord(
  context: CliContext,
  options: { readonly format?: string },
  record: Json,
  human: () => string,
): void {
  const format = resolveFormat(context, options)
  if (format === 'table') context.stdout.write(human())
  else context.stdout.write(`${format === 'json' ? prettyJson(record) : JSON.stringify(record)}\n`)
}

/** Keys sorted, two spaces: stable for diffs and for tests. */
function prettyJson(value: Json): string {
  return JSON.stringify(sortKeys(value), null, 2)
}

function sortKeys(value: Json): Json {
  if (Array.isArray(value)) return value.map(sortKeys)
  if (value === null || typeof value !== 'object') return value
  const record = value as { readonly [key: string]: Json | undefined }
  return Object.fromEntries(
    Object.keys(record)
      .sort()
      .filter((key) => record[key] !== undefined)
      .map((key) => [key, sortKeys(record[key] as Json)]),
  )
}

/** Two spaces before, two between, no trailing blanks. Control characters never reach the terminal. */
export function table<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  width = Number.POSITIVE_INFINITY,
): string {
  const filled = columns.map((column) => {
    const cells = [column.title, ...rows.map((row) => printable(column.value(row)))]
    return { column, cells, width: Math.max(...cells.map(({ length }) => length)) }
  })
  const shown = fitted(filled, width)
  const lines = [undefined, ...rows].map((_, i) =>
    shown
      .map(({ cells, width: most }) => cut(cells[i]!, most).padEnd(most))
      .join('  ')
      .trimEnd(),
  )
  return lines.map((line) => `  ${line}\n`).join('')
}

interface Filled {
  readonly column: Pick<Column<never>, 'goes' | 'shortens'>
  readonly cells: readonly string[]
  readonly width: number
}

/** Shortened, then fewer, then shorter: as little of it as fits. A name that has to be typed is never cut. */
function fitted(all: readonly Filled[], width: number): readonly Filled[] {
  const tooMuch = (some: readonly Filled[]) => some.reduce((sum, one) => sum + one.width + 2, 0) - width
  const shortened = (some: readonly Filled[], least: number) =>
    some.reduce((done, one, i) => {
      const over = tooMuch(done)
      if (!one.column.shortens || over <= 0) return done
      return done.with(i, { ...one, width: Math.max(Math.min(one.width, least), one.width - over) })
    }, some)
  let shown = shortened(all, SHORT)
  while (tooMuch(shown) > 0) {
    const going = shown.filter(({ column }) => column.goes !== undefined)
    if (going.length === 0) break
    const first = going.reduce((a, b) => (a.column.goes! <= b.column.goes! ? a : b))
    shown = shown.filter((one) => one !== first)
  }
  return shortened(shown, SHORTEST)
}

function cut(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`
}

/**
 * Text of unknown origin as one line that a terminal shows as it is: no row that was not printed, nothing invisible,
 * no change of direction.
 */
export function printable(text: string): string {
  return text
    .replaceAll('\n', '␤')
    .replaceAll('\t', ' ')
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u2065]/gu, '�')
}
