/** Reads members whose names have no quotes: YAML on a page, object literals in code. */
import { contentBetween, type Member } from './members.ts'
import { isPlaceholder, type TextForm } from './rule.ts'

/** Longer values are read up to this length, which is enough to find out whether they have content. */
const READ_MAX = 4_000

export function* bareMembers(text: string, keys: readonly string[], form: TextForm): Iterable<Member> {
  const names = keys
    .map((key) => key.replace(/_(\w)/g, (_, letter) => `[_-]?[${letter}${letter.toUpperCase()}]`))
    .join('|')
  if (form === 'code') {
    const literal = new RegExp(String.raw`(?<![\w$.'"${'`'}-])(${names}):\s*(?=['"${'`'}[{])`, 'g')
    for (const match of text.matchAll(literal)) {
      const value = text.slice(match.index + match[0].length, match.index + match[0].length + READ_MAX)
      yield { start: match.index, key: match[1]!, ...literalValue(value) }
    }
    return
  }
  const yaml = new RegExp(String.raw`^([ \t]*(?:[-*>] +)*)(${names}):(?=[ \t]|$)[ \t]*`, 'gm')
  for (const match of text.matchAll(yaml)) {
    const value = text.slice(match.index + match[0].length, match.index + match[0].length + READ_MAX)
    yield { start: match.index, key: match[2]!, ...yamlValue(value, match[1]!.length) }
  }
}

type Value = Pick<Member, 'content' | 'form'>

const NOTHING: Value = { form: 'plain', content: undefined }

/** Only text between quotes is content. The name of a variable is not. */
function literalValue(value: string): Value {
  if (value.startsWith('['))
    return { form: 'list', content: literals(contentBetween(value, '[', ']'), /(['"`])(.*?)\1/gs) }
  if (value.startsWith('{'))
    return {
      form: 'object',
      content: literals(contentBetween(value, '{', '}'), /\w['"]?\s*:\s*(['"`])(?:.*?)\1/gs),
    }
  return { form: 'string', content: readQuoted(value) }
}

function literals(code: string, pattern: RegExp): string {
  return [...code.matchAll(pattern)].map(([whole]) => whole).join(',')
}

function yamlValue(value: string, indent: number): Value {
  const [first = ''] = value.split('\n', 1)
  if (/^["']/.test(first)) return { form: 'string', content: readQuoted(value) }
  if (isPlaceholder(first.trim()) && first.trim() !== '') return NOTHING
  if (first.startsWith('[')) return { form: 'list', content: contentBetween(value, '[', ']') }
  if (first.startsWith('{')) return { form: 'object', content: contentBetween(value, '{', '}') }
  const plain = first.replace(/(?:^|\s)#.*$/, '').trim()
  if (plain === '' || /^[|>][+-]?\d?$/.test(plain)) {
    const below = blockBelow(value, indent)
    if (plain !== '') return { form: 'string', content: below }
    if (/^\s*-\s/.test(below)) return { form: 'list', content: below.replace(/^\s*-\s+/gm, ',') }
    return /^\s*[\w"']+:\s/.test(below) ? { form: 'object', content: below.replaceAll('\n', ',') } : NOTHING
  }
  if (/^(?:~|null|true|false|-?\d[\d_.]*)$/.test(plain)) return NOTHING
  return { form: 'string', content: plain }
}

/** Returns the lines below a name that belong to it: deeper lines, and list items at the same depth. */
function blockBelow(value: string, indent: number): string {
  const lines = value.split('\n').slice(1)
  const end = lines.findIndex((line) => {
    const depth = /^[ \t]*/.exec(line)![0].length
    return depth < indent || (depth === indent && !line.slice(depth).startsWith('- '))
  })
  return lines.slice(0, end === -1 ? undefined : end).join('\n')
}

function readQuoted(value: string): string {
  const end = value.indexOf(value[0]!, 1)
  return value.slice(1, end === -1 ? undefined : end)
}
