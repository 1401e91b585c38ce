/** Text as a terminal shows it, row by row: what it wraps by itself has no mark of ours at its beginning. */
import { printable } from '../output.ts'

/** At least one, none wider than that; the first goes on where so many cells are used. */
export function rowsOf(text: string, columns: number, used = 0): string[] {
  const rows: string[] = []
  let row = ''
  let width = used
  for (const character of text) {
    const cells = cellsOf(character)
    if (width + cells > columns && width > 0) {
      rows.push(row)
      row = ''
      width = 0
    }
    row += character
    width += cells
  }
  return [...rows, row]
}

/** Its beginning, if it is wider than that. */
export function fittedRow(text: string, columns: number): string {
  return cellsIn(text) <= columns ? text : `${rowsOf(text, Math.max(1, columns - 1))[0]}…`
}

/** It was chosen inside: with blanks in it a name could look like what stands beside it. */
export function formatName(path: string): string {
  const name = printable(path)
  return /\s\s|^\s|\s$|"/u.test(name) ? JSON.stringify(name) : name
}

export function cellsIn(text: string): number {
  let cells = 0
  for (const character of text) cells += cellsOf(character)
  return cells
}

const WIDE =
  /[\u1100-\u115f\u2329\u232a\u2e80-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe10-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{16000}-\u{3ffff}]|\p{Emoji_Presentation}/u

/** Two where in doubt: a row that ends early does no harm. */
function cellsOf(character: string): number {
  return WIDE.test(character) ? 2 : 1
}
