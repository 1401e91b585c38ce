/** Formats the rows of `craik doctor` for the user: the state first, then the name, the detail and the fix. */
import { wrapWords } from '../fit-lines.ts'
import { printable } from '../output.ts'
import type { HealthRow } from './row.ts'

const STATE = 4
/** A reader would take `none` for "no problem". */
const STATES = { ok: 'ok', warn: 'warn', none: 'off' } as const
const GAP = '  '
/** In a narrower column, breaking lines makes them harder to read. */
const LEAST_DETAIL = 30

/** Wraps what does not fit in `width` below the detail column. In a pipe each row is one line. */
export function describeRows(rows: readonly HealthRow[], width = Number.POSITIVE_INFINITY): string {
  const nameOf = ({ name, version }: HealthRow) =>
    printable(version === undefined ? name : `${name} ${version}`)
  const name = Math.max(...rows.map((row) => nameOf(row).length))
  const indent = GAP.length + STATE + GAP.length + name + GAP.length
  const available = Math.max(width - indent, LEAST_DETAIL)
  const fits = ({ detail, fix = '' }: HealthRow) => detail.length + GAP.length + fix.length <= available
  const beside = rows.filter((row) => row.fix !== undefined && fits(row))
  const column = Math.max(...beside.map(({ detail }) => detail.length), 0)
  const isBeside = ({ fix = '' }: HealthRow) => column + GAP.length + fix.length <= available
  return rows
    .flatMap((row) => {
      const [detail, fix] = [printable(row.detail), row.fix && printable(row.fix)]
      const message =
        fix === undefined
          ? wrapWords(detail, available)
          : fits(row) && isBeside(row)
            ? [`${detail.padEnd(column)}${GAP}${fix}`]
            : [...wrapWords(detail, available), fix]
      const head = `${GAP}${STATES[row.state].padEnd(STATE)}${GAP}${nameOf(row).padEnd(name)}${GAP}`
      return message.map((line, at) => `${at === 0 ? head : ' '.repeat(indent)}${line}`.trimEnd())
    })
    .map((line) => `${line}\n`)
    .join('')
}
