/** Text as a terminal shows it, row by row: what it wraps by itself has no mark of ours at its beginning. */

/** At least one, none wider than that. */
export function rowsOf(text: string, columns: number): string[] {
  const rows: string[] = []
  let row = ''
  let width = 0
  for (const character of text) {
    const cells = cellsOf(character)
    if (width + cells > columns && row !== '') {
      rows.push(row)
      row = ''
      width = 0
    }
    row += character
    width += cells
  }
  return [...rows, row]
}

/** Two for all that could be two: a row that ends early does no harm. */
export function cellsOf(character: string): number {
  return character.codePointAt(0)! < 0x1100 ? 1 : 2
}
