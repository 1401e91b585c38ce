/** Checks Markdown pages: long sentences, long lines, and phrases that the glossary replaced. */
import { findBareOpening, findPhrase, type Report } from './findings.ts'

/** The goal is 25. */
const SENTENCE_WORDS_MAX = 35
const LINE_MAX = 120
const CHANGELOG_LINE_MAX = 200

/** Checks sentences and phrases in prose. Code and the addresses of links are not prose. */
export function checkProse(page: string, report: Report): void {
  for (const { text, start, isHeading } of blocksOf(withoutCode(page))) {
    const message = findPhrase(text, 'user') ?? (isHeading ? undefined : findBareOpening(text))
    if (message !== undefined) report(start, message)
    for (const sentence of text.split(/[.:;!?](?=[\s)*”"]|$)/)) {
      const count = sentence.split(/\s+/).filter((word) => /\w/.test(word)).length
      if (count > SENTENCE_WORDS_MAX)
        report(start, `a sentence of ${count} words (at most ${SENTENCE_WORDS_MAX})`)
    }
  }
}

/** Checks the length of lines. Lines of tables and code may be longer, and the address of a link does not count. */
export function checkLines(page: string, report: Report): void {
  checkLength(withoutFences(page), LINE_MAX, report, (line) =>
    /^\s*\|/.test(line) ? 0 : line.replace(/\]\([^)]*\)|<https?:[^>]*>|https?:\S+/g, '').length,
  )
}

export function checkChangelog(page: string, report: Report): void {
  checkLength(page, CHANGELOG_LINE_MAX, report, ({ length }) => length)
}

function checkLength(page: string, most: number, report: Report, measure: (line: string) => number): void {
  let start = 0
  for (const line of page.split('\n')) {
    const length = measure(line.trimEnd())
    if (length > most) report(start, `a line of ${length} characters (at most ${most})`)
    start += line.length + 1
  }
}

interface Block {
  readonly text: string
  readonly start: number
  readonly isHeading: boolean
}

/** Returns the paragraphs, list items, headings and table cells. */
function blocksOf(page: string): readonly Block[] {
  const blocks: { text: string; start: number; isHeading: boolean }[] = []
  let isOpen = false
  let start = 0
  for (const line of page.split('\n')) {
    const isHeading = /^\s*#/.test(line)
    if (/^\s*\|/.test(line)) {
      for (const cell of line.split(/(?<!\\)\|/)) blocks.push({ text: cell.trim(), start, isHeading: false })
      isOpen = false
    } else if (line.trim() === '') isOpen = false
    else if (isOpen && !isHeading && !/^\s*(?:[-*+]|\d+\.)\s/.test(line))
      blocks.at(-1)!.text += ` ${line.trim()}`
    else {
      blocks.push({ text: line.trim().replace(/^(?:[-*+>#]+|\d+\.)\s+/, ''), start, isHeading })
      isOpen = !isHeading
    }
    start += line.length + 1
  }
  return blocks
}

function withoutCode(page: string): string {
  return withoutFences(page)
    .replace(/<!--[\s\S]*?-->/g, blank)
    .replace(/`[^`\n]*`/g, (code) => `x${' '.repeat(code.length - 1)}`)
    .replace(/\]\([^)\n]*\)/g, (link) => `]${' '.repeat(link.length - 1)}`)
}

function withoutFences(page: string): string {
  return page.replace(/^( *)(```|~~~)[\s\S]*?^\1\2[ \t]*$/gm, blank)
}

function blank(text: string): string {
  return text.replace(/[^\n]/g, ' ')
}
