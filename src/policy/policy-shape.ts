/**
 * Checks a policy text before the engine parses it. The engine parses by recursion on a small stack, and one overflow
 * breaks it for the life of the thread. So Craik refuses excessive nesting and chaining here.
 */

/** The engine accepts 100 nested brackets and 300 chained operators, each alone. It fails at 300 and 1000. */
const MAX_DEPTH = 40
const MAX_OPERATORS = 150

/** Matches strings and comments (which cannot nest), brackets, the end of a policy and every operator. */
const TOKEN = /"(?:[^"\\]|\\.)*"|\/\/[^\n]*|[([{]|[)\]}]|;|\b(?:if|in|is|has|like)\b|&&|\|\||[-+*.!=<>]/gs

/** Returns where the text nests too deeply, or `undefined`. */
export function findExcess(text: string): { readonly at: number; readonly message: string } | undefined {
  let depth = 0
  let operators = 0
  for (const match of text.matchAll(TOKEN)) {
    const token = match[0]
    if (token[0] === '"' || token.startsWith('//')) continue
    if (token === ';') operators = 0
    else if (')]}'.includes(token)) depth = Math.max(0, depth - 1)
    else operators++
    if ('([{'.includes(token)) depth++
    if (depth > MAX_DEPTH) return { at: match.index, message: `brackets nest deeper than ${MAX_DEPTH}` }
    if (operators > MAX_OPERATORS) {
      return {
        at: match.index,
        message: `one policy has more than ${MAX_OPERATORS} operators and brackets; split it`,
      }
    }
  }
  return undefined
}
