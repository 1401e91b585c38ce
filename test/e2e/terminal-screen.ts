/**
 * Renders what a user sees of a program that draws its screen. Supports the few escape sequences that such programs
 * use.
 */

const SEQUENCE =
  /\x1b\[([0-9;]*)([HJK])|\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[^[\]]|\r|\n|\t|[^\x00-\x1f\x1b]/gu

/** Returns the lines without trailing blanks. Nothing scrolls, so the screen must not be full. */
export function renderScreen(output: string): string {
  let lines: string[][] = []
  let [row, column] = [0, 0]
  for (const [all, numbers = '', kind] of output.matchAll(SEQUENCE)) {
    const [first = 0, second = 0] = numbers.split(';').map(Number)
    if (kind === 'H') [row, column] = [Math.max(0, first - 1), Math.max(0, second - 1)]
    else if (kind === 'K') lines[row]?.splice(column)
    else if (kind === 'J') {
      lines = lines.slice(0, first === 2 ? 0 : row + 1)
      lines[row]?.splice(column)
    } else if (all === '\r') column = 0
    else if (all === '\n') row++
    else if (all === '\t') column += 8 - (column % 8)
    else if (!all.startsWith('\x1b')) {
      lines[row] ??= []
      lines[row]![column++] = all
    }
  }
  return Array.from(lines, (line) =>
    Array.from(line ?? [], (letter) => letter ?? ' ')
      .join('')
      .trimEnd(),
  ).join('\n')
}
