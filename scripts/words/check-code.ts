/** Checks TypeScript files: identifiers, strings, comments, test names, and literals that are spread into literals. */
import { parseAst } from 'rolldown/parseAst'
import { findBareOpening, findPhrase, own, type Report, WORDS } from './findings.ts'

interface Node {
  readonly type: string
  readonly start: number
  readonly end: number
  readonly [field: string]: unknown
}

/** The root of a call that names a test, such as `it.each(rows)('name', …)`. */
const TEST_FUNCTIONS: ReadonlySet<string> = new Set(['it', 'test', 'describe'])

export function checkIdentifiers(text: string, report: Report): void {
  for (const { 0: name, index } of text.matchAll(/[A-Za-z_$][\w$]*/g)) {
    const newName = own(WORDS.identifiers, name)
    if (newName !== undefined) report(index, `write ${newName}, not ${name}`)
  }
}

/** Checks the strings that users read. */
export function checkStrings(text: string, report: Report): void {
  for (const { value, start } of literalsOf(parse(text))) {
    const message = findPhrase(value, 'user')
    if (message !== undefined) report(start, message)
  }
}

export function checkComments(text: string, report: Report): void {
  for (const { text: comment, start } of commentsIn(text)) {
    const message = findPhrase(comment, 'all') ?? findBareOpening(comment)
    if (message !== undefined) report(start, message)
  }
}

export function checkTestNames(text: string, report: Report): void {
  visit(parse(text), (node) => {
    if (node.type !== 'CallExpression' || !TEST_FUNCTIONS.has(rootName(node.callee as Node))) return
    const [name] = node.arguments as readonly Node[]
    const named = name === undefined ? undefined : literalsOf(name)[0]
    const message = named && findPhrase(named.value, 'all')
    if (message !== undefined) report(named!.start, message)
  })
}

/** Finds spreads of literals: `[...[a, b]]`, `call(...[a, b])` and `{ ...{ a } }` mean the same without the spread. */
export function checkSpreads(text: string, report: Report): void {
  visit(parse(text), (node) => {
    const members = [node.elements, node.arguments, node.properties].find(Array.isArray) as
      | readonly (Node | null)[]
      | undefined
    const literal = node.type === 'ObjectExpression' ? 'ObjectExpression' : 'ArrayExpression'
    for (const member of members ?? []) {
      if (member?.type === 'SpreadElement' && unwrap(member.argument as Node).type === literal)
        report(member.start, 'write the members without the spread of a literal')
    }
  })
}

/** Returns the names of the declarations that a file exports. */
export function exportedNames(text: string): readonly string[] {
  const statements = parse(text).body as readonly Node[]
  return statements.flatMap(({ type, declaration }) => {
    if (type !== 'ExportNamedDeclaration' || declaration === null) return []
    const { declarations, id } = declaration as {
      declarations?: readonly { id: { name?: string } }[]
      id?: { name: string }
    }
    return (declarations?.map((each) => each.id) ?? [id]).flatMap((each) => each?.name ?? [])
  })
}

/** Returns each comment as one line without its stars. Consecutive lines of `//` are one comment. */
export function commentsIn(text: string): readonly { readonly text: string; readonly start: number }[] {
  let code = text
  const hide = (start: number, end: number) => {
    code = code.slice(0, start) + code.slice(start, end).replace(/[^\n]/g, ' ') + code.slice(end)
  }
  visit(parse(text), (node) => {
    const isText = node.type === 'Literal' && (typeof node.value === 'string' || 'regex' in node)
    if (isText || node.type === 'TemplateElement') hide(node.start, node.end)
  })
  return [...code.matchAll(/\/\*[\s\S]*?\*\/|\/\/[^\n]*(?:\n[ \t]*\/\/[^\n]*)*/g)].map(
    ({ 0: whole, index }) => ({
      start: index,
      text: whole
        .replace(/^\/\*+|\*+\/$/g, '')
        .replace(/^[ \t]*(?:\/\/|\*)/gm, '')
        .replace(/\s+/g, ' ')
        .trim(),
    }),
  )
}

function literalsOf(root: Node): readonly { readonly value: string; readonly start: number }[] {
  const found: { value: string; start: number }[] = []
  visit(root, ({ type, value, start }) => {
    const string = type === 'TemplateElement' ? (value as { cooked: string }).cooked : value
    if ((type === 'Literal' || type === 'TemplateElement') && typeof string === 'string')
      found.push({ value: string, start })
  })
  return found
}

function rootName(callee: Node): string {
  if (callee.type === 'Identifier') return callee.name as string
  const inner = (callee.object ?? callee.callee ?? callee.tag) as Node | undefined
  return inner === undefined ? '' : rootName(inner)
}

function unwrap(node: Node): Node {
  const inner = /^(?:Parenthesized|TSAs|TSSatisfies|TSNonNull)Expression$/.test(node.type)
  return inner ? unwrap(node.expression as Node) : node
}

function visit(node: unknown, see: (node: Node) => void): void {
  if (typeof node !== 'object' || node === null) return
  if (typeof (node as Node).type === 'string') see(node as Node)
  for (const child of Object.values(node)) visit(child, see)
}

let parsed: { readonly text: string; readonly program: Node } | undefined

/** Caches the last parsed text, because the checks read the same file one after the other. */
function parse(text: string): Node {
  if (parsed?.text !== text) parsed = { text, program: parseAst(text, { lang: 'ts' }) as unknown as Node }
  return parsed.program
}
