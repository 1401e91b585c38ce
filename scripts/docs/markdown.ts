/** Formats the small pieces of Markdown that the generated pages share. */

const LINE_WIDTH = 116

/** Escapes a text so that Markdown shows it unchanged. Text in backticks stays code. */
export function escapeText(text: string): string {
  return text
    .split(/(`[^`]*`)/)
    .map((part, i) => (i % 2 === 1 ? part : part.replace(/[<*]/g, '\\$&')))
    .join('')
}

/** Escapes a text for a table cell. */
function cell(text: string): string {
  return text.replaceAll('|', '\\|')
}

export function table(titles: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [titles, titles.map(() => '---'), ...rows.map((row) => row.map(cell))]
  return lines
    .map((row) => `| ${row.join(' | ')} |`)
    .join('\n')
    .replaceAll('| --- ', '|---')
    .replaceAll('--- |', '---|')
}

/** Wraps one paragraph into lines that fit. */
export function wrap(text: string, indent = ''): string {
  const lines: string[] = []
  for (const word of text.split(/[ \n]+/)) {
    const last = lines.at(-1)
    if (last === undefined || last.length + 1 + word.length > LINE_WIDTH) lines.push(indent + word)
    else lines[lines.length - 1] = `${last} ${word}`
  }
  return lines.join('\n')
}

export function sentence(text: string): string {
  const start = text.charAt(0).toUpperCase() + text.slice(1)
  return /[.:!?]$/.test(start) ? start : `${start}.`
}

/** Returns the anchor that GitHub gives to a heading. */
export function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(' ', '-')
}
