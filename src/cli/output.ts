/** How results look: a table for people, JSON for programs, the same facts in both. */
import { Option } from 'commander'
import type { Json } from '../lib/canonical-json.ts'
import type { CliContext } from './context.ts'

type Format = 'table' | 'json' | 'jsonl'

export interface Column<Row> {
  readonly title: string
  readonly value: (row: Row) => string
}

/** `--format`, as every command that prints a result has it. */
export function formatOption(): Option {
  return new Option('--format <format>', 'table on a terminal, json in a pipe, unless chosen here').choices([
    'table',
    'json',
    'jsonl',
  ])
}

export function chosenFormat(context: CliContext, options: { readonly format?: string }): Format {
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
  const format = chosenFormat(context, options)
  if (format === 'json') context.stdout.write(`${prettyJson(rows.map(toJson))}\n`)
  else if (format === 'jsonl')
    for (const row of rows) context.stdout.write(`${JSON.stringify(toJson(row))}\n`)
  else if (rows.length === 0) context.stdout.write('  none\n')
  else context.stdout.write(table(columns, rows))
}

/** Prints one record: `human` on a terminal, JSON otherwise. */
export function printRecord(
  context: CliContext,
  options: { readonly format?: string },
  record: Json,
  human: () => string,
): void {
  const format = chosenFormat(context, options)
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
export function table<Row>(columns: readonly Column<Row>[], rows: readonly Row[]): string {
  const cells = rows.map((row) => columns.map((column) => printable(column.value(row))))
  const widths = columns.map((column, i) =>
    Math.max(column.title.length, ...cells.map((row) => row[i]!.length)),
  )
  const line = (row: readonly string[]) =>
    `  ${row
      .map((cell, i) => cell.padEnd(widths[i]!))
      .join('  ')
      .trimEnd()}\n`
  return line(columns.map((column) => column.title)) + cells.map(line).join('')
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
