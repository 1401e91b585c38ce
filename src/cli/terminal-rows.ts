/**
 * Measures text in the cells of a terminal, and splits it into rows. A terminal that wraps lines by itself would omit
 * Craik's margin.
 */

/** Returns at least one row, none wider than `columns`. `used` cells of the first row are taken already. */
export function splitRows(text: string, columns: number, used = 0): string[] {
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

/** Cuts the end of text that is wider than `columns`. */
export function truncateRow(text: string, columns: number): string {
  return countCells(text) <= columns ? text : `${splitRows(text, Math.max(1, columns - 1))[0]}…`
}

export function countCells(text: string): number {
  let cells = 0
  for (const character of text) cells += cellsOf(character)
  return cells
}

const WIDE =
  /[\u1100-\u115f\u2329\u232a\u2e80-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe10-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{16000}-\u{3ffff}]|\p{Emoji_Presentation}/u

/** Counts two cells in doubt, because a row that ends early does no harm. */
function cellsOf(character: string): number {
  return WIDE.test(character) ? 2 : 1
}
