/** Parses JSON and YAML text without duplicate keys and without references. */

/** Deeper than any of Craik's records. */
const MAX_DEPTH = 16

/** Throws a SyntaxError that states the problem and its position, without repeating the text. */
export function parseJsonText(text: string): unknown {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw new SyntaxError(`is not valid JSON${locationIn(text, error)}`)
  }
  requirePlain(value, 0)
  refuseRepeatedKeys(text)
  return value
}

/** Parses one document of YAML 1.2's core schema: no aliases, no tags, no duplicate keys. */
export async function parseYamlText(text: string): Promise<unknown> {
  const { isAlias, isNode, LineCounter, parseDocument, visit } = await import('yaml')
  const lines = new LineCounter()
  let value: unknown
  try {
    const document = parseDocument(text, {
      version: '1.2',
      schema: 'core',
      merge: false,
      strict: true,
      stringKeys: true,
      uniqueKeys: true,
      prettyErrors: false,
      lineCounter: lines,
    })
    // The parser reports an unknown tag only as a warning.
    const [problem] = [...document.errors, ...document.warnings]
    if (problem !== undefined) {
      const { line, col } = lines.linePos(problem.pos[0])
      throw new SyntaxError(`is not valid YAML at line ${line}, column ${col} (${problem.code})`)
    }
    visit(document, (_key, node) => {
      if (isAlias(node)) throw new SyntaxError('uses an alias; write the value instead')
      if (isNode(node) && node.tag !== undefined) throw new SyntaxError('uses a tag; write plain values')
    })
    value = document.toJS({ maxAliasCount: 0 })
  } catch (error) {
    if (error instanceof SyntaxError) throw error
    // Nesting that exhausts the parser's stack is caught here.
    throw new SyntaxError('is not valid YAML')
  }
  requirePlain(value, 0)
  return value
}

function requirePlain(value: unknown, depth: number): void {
  if (typeof value !== 'object' || value === null) return
  if (depth >= MAX_DEPTH) throw new SyntaxError(`nests deeper than ${MAX_DEPTH} levels`)
  for (const key of Object.keys(value)) {
    if (key === '__proto__') throw new SyntaxError('has a member named __proto__')
    requirePlain((value as Record<string, unknown>)[key], depth + 1)
  }
}

/**
 * `JSON.parse` keeps the last of two members with the same name, but a human reader may see the first. The text must be
 * valid JSON.
 */
function refuseRepeatedKeys(text: string): void {
  const open: (Set<string> | undefined)[] = []
  for (const [token, key] of text.matchAll(/"(?:[^"\\]|\\.)*"(\s*:)?|[{}[\]]/g)) {
    if (token === '{') open.push(new Set())
    else if (token === '[') open.push(undefined)
    else if (token === '}' || token === ']') open.pop()
    else if (key !== undefined) {
      const name = JSON.parse(token.slice(0, -key.length)) as string
      const seen = open.at(-1)!
      if (seen.has(name)) throw new SyntaxError(`has two members named ${JSON.stringify(name.slice(0, 60))}`)
      seen.add(name)
    }
  }
}

/** Some of V8's messages contain a position, and all of them repeat parts of the text. */
function locationIn(text: string, error: unknown): string {
  const position = /at position (\d+)/.exec((error as Error).message)?.[1]
  if (position === undefined) return ''
  const before = text.slice(0, Number(position)).split('\n')
  return ` at line ${before.length}, column ${before.at(-1)!.length + 1}`
}
