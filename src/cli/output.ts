/** Prints results: a table for people, JSON for programs, the same facts in both. */
import { Option } from 'commander'
import type { Json } from '../lib/canonical-json.ts'
import type { CliContext } from './context.ts'
import { fitLines } from './fit-lines.ts'
import { countCells, splitRows, truncateRow } from './terminal-rows.ts'

type Format = 'table' | 'json' | 'jsonl'

export interface FormatOptions {
  readonly format?: string
}

export interface Column<Row> {
  readonly title: string
  readonly value: (row: Row) => string
  /** When the columns are too wide for the terminal, those with a number are dropped, the lowest first. */
  readonly dropOrder?: number
  /** Its cells may be cut, so that other columns stay. Do not set it for what people have to type. */
  readonly canShorten?: true
}

/**
 * Columns that can be shortened keep the first width before other columns are dropped, and the second width in any
 * case.
 */
const SHORT = 20
const SHORTEST = 8

export const JSON_HELP = '--json: short for --format json'
const FORMAT_HELP = `output format; wide: all columns; ${JSON_HELP} (default: table on a terminal, else json)`
/** The help for commands whose results are mostly for programs. */
export const JSON_FIRST_HELP = `output format; ${JSON_HELP} (default: json, even on a terminal)`

/** Returns `--format` for a command that prints a result. Such a command accepts `--json` too: see `run-command.ts`. */
export function formatOption(description = FORMAT_HELP): Option {
  return new Option('--format <format>', description).choices(['table', 'wide', 'json', 'jsonl'])
}

/** `wide` is a table that has all of its columns. */
export function resolveFormat(context: CliContext, options: FormatOptions): Format {
  const format = (options.format as Format | 'wide' | undefined) ?? (context.stdout.isTTY ? 'table' : 'json')
  return format === 'wide' ? 'table' : format
}

/** Returns the width for lines. In a pipe they can have any width. */
export function outputColumns(context: CliContext, options: FormatOptions = {}): number {
  return (options.format === 'wide' ? undefined : context.stdout.columns) ?? Number.POSITIVE_INFINITY
}

/** Prints a note for the user to stderr, beside the results, broken into lines that fit the terminal. */
export function printNote({ stderr }: Pick<CliContext, 'stderr'>, text: string): void {
  stderr.write(fitLines(text, stderr.columns))
}

/** Prints text for the user to stdout, broken into lines that fit the terminal. */
export function printText(context: CliContext, text: string): void {
  context.stdout.write(fitLines(text, outputColumns(context)))
}

/** Prints rows in the chosen format. `toJson` gives the facts that a program gets. */
export function printRows<Row>(
  context: CliContext,
  options: FormatOptions,
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  toJson: (row: Row) => Json,
): void {
  const format = resolveFormat(context, options)
  if (format === 'json') context.stdout.write(`${prettyJson(rows.map(toJson))}\n`)
  else if (format === 'jsonl')
    for (const row of rows) context.stdout.write(`${JSON.stringify(toJson(row))}\n`)
  else if (rows.length === 0) context.stdout.write('  none\n')
  else context.stdout.write(table(columns, rows, outputColumns(context, options)))
}

/** Prints one record: `human` on a terminal, JSON otherwise. `human` gets the width for the tables in its text. */
export function printRecord(
  context: CliContext,
  options: FormatOptions,
  record: Json,
  human: (columns: number) => string,
): void {
  const format = resolveFormat(context, options)
  const columns = outputColumns(context, options)
  if (format === 'table') context.stdout.write(fitLines(human(columns), columns))
  else context.stdout.write(`${format === 'json' ? prettyJson(record) : JSON.stringify(record)}\n`)
}

/** Sorts the keys and indents by two spaces, so that the output is stable for diffs and tests. */
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

/**
 * Formats rows with two spaces before each row and between columns, without trailing blanks. Control characters never
 * reach the terminal.
 */
export function table<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  width = Number.POSITIVE_INFINITY,
): string {
  const measured = columns.map((column) => {
    const cells = [column.title, ...rows.map((row) => printable(column.value(row)))]
    return { column, cells, width: Math.max(...cells.map(countCells)) }
  })
  const chosen = fitColumns(measured, width)
  const lines = [undefined, ...rows].map((_, i) =>
    chosen
      .map(({ cells, width: most }) => pad(shortenCell(cells[i]!, most), most))
      .join('  ')
      .trimEnd(),
  )
  return lines.map((line) => `  ${line}\n`).join('')
}

interface MeasuredColumn {
  readonly column: Pick<Column<never>, 'dropOrder' | 'canShorten'>
  readonly cells: readonly string[]
  readonly width: number
}

/** Shortens some columns, then drops others, then shortens more: only as much as needed. */
function fitColumns(all: readonly MeasuredColumn[], width: number): readonly MeasuredColumn[] {
  const excess = (some: readonly MeasuredColumn[]) =>
    some.reduce((sum, one) => sum + one.width + 2, 0) - width
  const shortenTo = (some: readonly MeasuredColumn[], least: number) =>
    some.reduce((done, one, i) => {
      const over = excess(done)
      if (!one.column.canShorten || over <= 0) return done
      return done.with(i, { ...one, width: Math.max(Math.min(one.width, least), one.width - over) })
    }, some)
  let stored = all
  while (excess(shortenTo(stored, SHORT)) > 0) {
    const droppable = stored.filter(({ column }) => column.dropOrder !== undefined)
    if (droppable.length === 0) break
    const first = droppable.reduce((a, b) => (a.column.dropOrder! <= b.column.dropOrder! ? a : b))
    stored = stored.filter((one) => one !== first)
  }
  return shortenTo(shortenTo(stored, SHORT), SHORTEST)
}

const ID = /^((?:[a-z]+\/)?[a-z]+_)([0-9A-HJKMNP-TV-Z]{26})$/
const PATH = /^([a-z ]+: )?(?=~?\/|[^\s:]+\/\S*$)/

/** Keeps the beginning and the end of an id, the end of a path, and the beginning of other text. */
export function shortenCell(text: string, most: number): string {
  if (countCells(text) <= most) return text
  const [, prefix, ulid] = ID.exec(text) ?? []
  if (ulid !== undefined && prefix!.length + 8 <= most)
    return `${prefix}${ulid.slice(0, 4)}…${ulid.slice(-3)}`
  const lead = PATH.exec(text)?.[1] ?? ''
  if (!PATH.test(text) || most < lead.length + SHORTEST) return truncateRow(text, most)
  const end = splitRows([...text.slice(lead.length)].reverse().join(''), most - lead.length - 1)[0]!
  return `${lead}…${[...end].reverse().join('')}`
}

/** Formats a time such as `2026-11-15 09:12`, in UTC. */
export function formatMinute(atMs: number): string {
  return new Date(atMs).toISOString().slice(0, 16).replace('T', ' ')
}

function pad(text: string, width: number): string {
  return text + ' '.repeat(Math.max(0, width - countCells(text)))
}

/** Puts a name from a sandbox into quotes if its blanks could make it look like the text beside it. */
export function formatName(path: string): string {
  const name = printable(path)
  return /\s\s|^\s|\s$|"/u.test(name) ? JSON.stringify(name) : name
}

/**
 * Returns text of unknown origin as one line that is safe to print: it adds no rows, hides nothing and does not change
 * the direction of text.
 */
export function printable(text: string): string {
  return text
    .replaceAll('\n', '␤')
    .replaceAll('\t', ' ')
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u2065]/gu, '�')
}
