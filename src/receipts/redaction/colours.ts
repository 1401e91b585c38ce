/** Text as a reader sees it: without the colour codes and UTF-16 NULs within its words. */

const INVISIBLE = String.raw`(?:(?:\x1b|\\{1,4}(?:u001b|x1b|033|e))\[[\d;]{0,12}m|\x00|\\{1,4}u0000)`
/** Test runners dim the unit of a duration, so `12`, a code and `ms` do not count as a broken word. */
const INSIDE_WORD = new RegExp(`(?:[A-Za-z_-]${INVISIBLE}{1,4}|\\d${INVISIBLE}{1,4}(?!m?s\\b))[\\w-]`, 'i')
const CODES = new RegExp(INVISIBLE, 'gi')

export interface VisibleText {
  readonly text: string
  /** Maps a range of the visible text to the original. */
  readonly original: (start: number, end: number) => { readonly start: number; readonly end: number }
}

/** Returns `undefined` when no word is broken, so that the original text can be read. */
export function visibleText(text: string): VisibleText | undefined {
  if (!hasBrokenWord(text)) return undefined
  const positions = new Uint32Array(text.length)
  let visible = ''
  let from = 0
  const keep = (to: number) => {
    for (let at = from, shown = visible.length; at < to; at++, shown++) positions[shown] = at
    visible += text.slice(from, to)
  }
  for (const match of text.matchAll(CODES)) {
    keep(match.index)
    from = match.index + match[0].length
  }
  keep(text.length)
  return {
    text: visible,
    original: (start, end) => ({ start: positions[start]!, end: positions[end - 1]! + 1 }),
  }
}

/** Returns whether a word contains invisible characters. */
export function hasBrokenWord(text: string): boolean {
  const mayHold =
    text.includes('\x1b[') || text.includes('\0') || /\\(?:(?:u001b|x1b|033|e)\[|u0000)/i.test(text)
  return mayHold && INSIDE_WORD.test(text)
}
