/**
 * Rewrites the Markdown of a message so that it stays in its section. The result has no headings of the first or second
 * level, no HTML, no front matter, no code block without an end, and no image that is fetched when the file is viewed.
 */

/**
 * The possible text before a block on its line: indentation, quotes and list items. Some parsers accept any white space
 * as a blank.
 */
const CONTAINERS = /^(?:\s|>|[-*+](?=\s)|\d{1,9}[.)](?=\s))*/
const HEADING = /^(#{1,6})(?=\s|$)/
/** A line that makes a heading of the line before it, or starts front matter. */
const UNDERLINE = /^(?:-+|=+)\s*$/
const FENCE = /^([ \t]*)(`{3,}|~{3,})([^\n]*)$/
/**
 * A line that looks like the start of a section. It is indented in code blocks too, so that sections can be counted by
 * line.
 */
const SECTION = /^(?=## (?:user|assistant)[ \t]*$)/gm
/** Sections have headings of the second level, so the headings in a message start below it. */
const LEVELS_DOWN = 2

export function defuse(text: string): string {
  const out: string[] = []
  const lines = text.split('\n')
  for (let at = 0; at < lines.length; at++) {
    const block = findFencedBlock(lines, at)
    if (block === undefined) {
      out.push(defuseLine(lines[at]!))
      continue
    }
    const margin = new RegExp(`^[ \\t]{0,${block.indentation}}`)
    const code = lines.slice(at + 1, block.end).map((line) => line.replace(margin, ''))
    out.push(fenceCode(code.join('\n'), block.language))
    at = block.end
  }
  return out.join('\n')
}

/** Returns a code block that nothing in it can end. */
export function fenceCode(code: string, language = ''): string {
  const longest = (code.match(/`+/g) ?? []).reduce((most, { length }) => Math.max(most, length), 2)
  const fence = '`'.repeat(longest + 1)
  return `${fence}${language}\n${code.replace(/\n$/, '').replace(SECTION, ' ')}\n${fence}`
}

/** Escapes text so that it contains no HTML. */
export function htmlText(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}

/**
 * Returns where a code block that starts on this line ends: on its closing line, or at the end of the text. The block
 * is moved out of a list, because Markdown parsers disagree about where a list ends.
 */
function findFencedBlock(
  lines: readonly string[],
  at: number,
): { readonly end: number; readonly language: string; readonly indentation: number } | undefined {
  const open = FENCE.exec(lines[at]!)
  if (open === null) return undefined
  const [, indentation, fence, info] = open as unknown as [string, string, string, string]
  if (fence.startsWith('`') && info.includes('`')) return undefined
  const closing = new RegExp(`^[ \\t]*\\${fence[0]}{${fence.length},}[ \\t]*$`)
  let end = at + 1
  while (end < lines.length && !closing.test(lines[end]!)) end++
  const language = /^[A-Za-z0-9+#._-]{1,32}/.exec(info.trim())?.[0] ?? ''
  return { end, language, indentation: indentation.length }
}

function defuseLine(line: string): string {
  // A dash and a blank also form an underline when they do not start a list.
  const quoted = /^[\s>]*/.exec(line)![0]
  if (UNDERLINE.test(line.slice(quoted.length))) return `${quoted}\\${line.slice(quoted.length)}`
  const before = CONTAINERS.exec(line)![0]
  const rest = line.slice(before.length)
  const heading = HEADING.exec(rest)
  if (heading !== null) {
    const level = Math.min(6, heading[1]!.length + LEVELS_DOWN)
    return `${before}${'#'.repeat(level)}${defuseInline(rest.slice(heading[1]!.length))}`
  }
  const isBlock = UNDERLINE.test(rest) || /^(?:```|~~~)/.test(rest)
  return `${before}${isBlock ? '\\' : ''}${defuseInline(rest)}`
}

function defuseInline(text: string): string {
  return text
    .replace(/<(?=[A-Za-z/!?])/g, '&lt;')
    .replaceAll('![', '!\\[')
    .replace(/%%/g, '%&#37;')
    .replace(/\$\$/g, '$&#36;')
}
