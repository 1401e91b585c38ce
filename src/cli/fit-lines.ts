/** Breaks lines that are wider than the terminal, so that no word is cut and a command that people copy stays whole. */
import { countCells } from './terminal-rows.ts'

/** A longer first part of a line is a sentence and not a label. */
const MAX_LABEL = 24
/** In less width than this, breaking lines makes them harder to read. */
const MIN_WIDTH = 40

/**
 * Breaks each line of `text` at words. The rest of `  label   value` stands below the value, the rest of other lines two
 * cells further in than their beginning. A command after `:  ` moves to a line of its own when it does not fit.
 */
export function fitLines(text: string, columns = Number.POSITIVE_INFINITY): string {
  if (columns < MIN_WIDTH || countCells(text) <= columns) return text
  return text
    .split('\n')
    .map((line) => (countCells(line) <= columns ? line : breakLine(line, columns)))
    .join('\n')
}

/** Breaks at words; a word that is wider than `columns` stays whole. */
export function wrapWords(text: string, columns: number): string[] {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line !== '' && countCells(line) + 1 + countCells(word) > columns) {
      lines.push(line)
      line = word
    } else line = line === '' ? word : `${line} ${word}`
  }
  return [...lines, line]
}

interface Piece {
  readonly gap: string
  readonly text: string
}

function breakLine(line: string, columns: number): string {
  const lead = /^ */.exec(line)![0]
  const hang = ' '.repeat(hangOf(line, lead.length))
  const lines: string[] = []
  let current = ''
  for (const { gap, text } of splitPieces(line.slice(lead.length))) {
    const isFirst = current === ''
    if (isFirst) current = `${lines.length === 0 ? lead : hang}${text}`
    else if (countCells(current) + gap.length + countCells(text) <= columns) current += `${gap}${text}`
    else {
      lines.push(current.trimEnd())
      current = `${hang}${text}`
    }
  }
  return [...lines, current.trimEnd()].join('\n')
}

/** Splits the text into words and whole commands, each with the blanks before it. */
function splitPieces(text: string): Piece[] {
  const parts = text.split(/( {2,})/)
  return parts.flatMap((part, at): Piece[] => {
    if (at % 2 === 1) return []
    const gap = at === 0 ? '' : parts[at - 1]!
    const isCommand = part.startsWith('craik ') || (at > 0 && parts[at - 2]!.endsWith(':'))
    if (isCommand) return [{ gap, text: part }]
    return part.split(' ').map((word, nth) => ({ gap: nth === 0 ? gap : ' ', text: word }))
  })
}

function hangOf(line: string, lead: number): number {
  const [, mark, label, gap] = /^ *(?:([✓✗●–│?] )|(\S(?:.*?\S)?)( {2,})(?=\S))/u.exec(line) ?? []
  if (mark !== undefined) return lead + mark.length
  const isLabel = label !== undefined && !label.endsWith(':') && label.length <= MAX_LABEL
  // The longest label of a summary, such as `accounts`, has one blank behind it.
  if (/^ {2}[a-z]{8} \S/.test(line)) return lead + 9
  return isLabel ? lead + label.length + gap!.length : lead + 2
}
