/** Tests each rule of `scripts/check-words.ts` with a text that breaks it and one that does not. */
import { describe, expect, it } from 'vitest'
import {
  checkComments,
  checkIdentifiers,
  checkSpreads,
  checkStrings,
  checkTestNames,
  commentsIn,
  exportedNames,
} from './check-code.ts'
import { checkChangelog, checkLines, checkProse } from './check-page.ts'
import { lineAt, own, type Report, WORDS } from './findings.ts'

/** Returns the lines of the findings in a text. */
function linesOf(check: (text: string, report: Report) => void, text: string): number[] {
  const lines: number[] = []
  check(text, (index) => lines.push(lineAt(text, index)))
  return lines
}

const PHRASES = Object.keys(WORDS.phrases)
const words = (count: number) => Array(count).fill('word').join(' ')

describe('code', () => {
  it('refuses each replaced identifier, but not a longer name that contains it', () => {
    for (const name of Object.keys(WORDS.identifiers)) {
      expect(linesOf(checkIdentifiers, `\nconst ${name} = 1`), name).toEqual([2])
      expect(linesOf(checkIdentifiers, `const my${name}s = 1`), name).toEqual([])
    }
    for (const name of Object.values(WORDS.identifiers))
      expect(linesOf(checkIdentifiers, `const ${name.split(' ')[0]} = 1`), name).toEqual([])
  })

  it('refuses each replaced phrase in strings, templates, comments and test names', () => {
    for (const phrase of PHRASES) {
      const text = `the run ${phrase} it`
      expect(linesOf(checkStrings, `\nsay('${text}')`), phrase).toEqual([2])
      expect(linesOf(checkStrings, `say(\`${text} \${name}\`)`), phrase).toEqual([1])
      expect(linesOf(checkComments, `/** ${text} */`), phrase).toEqual([1])
      expect(linesOf(checkComments, `// ${text.replace(/ (?=\S+$)/, '\n// ')}`), phrase).toEqual([1])
      expect(linesOf(checkTestNames, `it('${text}', () => {})`), phrase).toEqual([1])
      expect(linesOf(checkTestNames, `it.each(rows)('${text}', () => {})`), phrase).toEqual([1])
      expect(linesOf(checkProse, `\n${text}.`), phrase).toEqual([2])
    }
  })

  it('accepts the words that the glossary suggests', () => {
    for (const text of [...Object.values(WORDS.phrases), ...Object.values(WORDS.userPhrases)])
      expect(linesOf(checkStrings, `say('${text.replaceAll("'", '')} it')`), text).toEqual([])
  })

  it('lets code, but not texts for users, use the words that only code may use', () => {
    for (const word of Object.keys(WORDS.userPhrases)) {
      expect(linesOf(checkStrings, `say('the ${word} of it')`), word).toEqual([1])
      expect(linesOf(checkProse, `The ${word} of it.`), word).toEqual([1])
      expect(linesOf(checkComments, `// The ${word} of it.`), word).toEqual([])
      expect(linesOf(checkStrings, `say('the file ${word}.key')`), word).toEqual([])
    }
  })

  it('accepts strings that are stored', () => {
    for (const text of WORDS.kept) expect(linesOf(checkStrings, `say('${text}')`)).toEqual([])
  })

  it('refuses a comment with a sentence that starts with a bare question word', () => {
    expect(linesOf(checkComments, '/** What is not there yet is made. */')).toEqual([1])
    expect(linesOf(checkComments, '// A folder. Whoever holds it may write.')).toEqual([1])
    expect(linesOf(checkComments, '// Creates what is missing. What else?')).toEqual([])
  })

  it('finds comments, but not strings that look like comments', () => {
    const code = [
      "const a = 'http://x' // one",
      '// two',
      'const b = /\\/\\*x/ /* three',
      ' * four */',
      'const c = `/* $' + '{a /* five */} //`',
    ].join('\n')
    expect(commentsIn(code).map(({ text }) => text)).toEqual(['one two', 'three four', 'five'])
  })

  it('reads test names only from the calls of test functions', () => {
    expect(linesOf(checkTestNames, "say('it goes on'); it('works', () => say('it goes on'))")).toEqual([])
  })

  it('refuses to spread a literal into a literal or a call', () => {
    expect(linesOf(checkSpreads, 'const a = [1, ...[2, 3]]')).toEqual([1])
    expect(linesOf(checkSpreads, '\nsay(...[2, 3])')).toEqual([2])
    expect(linesOf(checkSpreads, 'new Say(...([2] as const))')).toEqual([1])
    expect(linesOf(checkSpreads, 'const a = { b: 1, ...{ c } }')).toEqual([1])
    expect(
      linesOf(checkSpreads, 'const a = [...list, ...(c ? [d] : [])]; const b = { ...(c && { d }) }'),
    ).toEqual([])
  })
})

describe('exports', () => {
  it('finds the names of all kinds of declarations', () => {
    const code =
      'export const a = 1, b = 2; export function c() {}; export type D = 1; export interface E {}; export class F {}'
    expect(exportedNames(code)).toEqual(['a', 'b', 'c', 'D', 'E', 'F'])
    expect(exportedNames("const g = 1; export { h } from './h.ts'")).toEqual([])
  })
})

describe('files', () => {
  it('have one new name each, which the check accepts', () => {
    for (const [name, newName] of Object.entries(WORDS.files)) {
      expect(own(WORDS.files, name)).toBe(newName)
      expect(own(WORDS.files, newName), name).toBeUndefined()
    }
    expect(own(WORDS.files, 'constructor')).toBeUndefined()
  })
})

describe('pages', () => {
  it('refuses a sentence of more than 35 words, also across lines', () => {
    expect(linesOf(checkProse, `\n${words(36)}.`)).toEqual([2])
    expect(linesOf(checkProse, `${words(20)}\n${words(16)}.`)).toEqual([1])
    expect(linesOf(checkProse, `- ${words(20)}\n- ${words(20)}\n\n| ${words(30)} | ${words(30)} |`)).toEqual(
      [],
    )
    expect(linesOf(checkProse, `| a | ${words(36)} |`)).toEqual([1])
    expect(linesOf(checkProse, `${words(35)}. ${words(35)}.`)).toEqual([])
  })

  it('ignores code and addresses', () => {
    expect(linesOf(checkProse, '```text\nit goes on\n```\n\nRun `goes on`. See [it](goes-on.md).')).toEqual(
      [],
    )
    expect(linesOf(checkProse, `\`\`\`text\n${words(40)}\n\`\`\``)).toEqual([])
    expect(linesOf(checkProse, '```text\ncode\n```\n\nIt goes on.')).toEqual([5])
  })

  it('refuses a sentence that starts with a bare question word, and accepts headings and questions', () => {
    expect(linesOf(checkProse, 'What it writes is signed.')).toEqual([1])
    expect(linesOf(checkProse, '## What a placeholder allows\n\nWhat is a sandbox?')).toEqual([])
  })

  it('refuses lines of more than 120 characters outside of tables, code and addresses', () => {
    const long = 'x'.repeat(121)
    expect(linesOf(checkLines, `\n${long}\n${'x'.repeat(120)}`)).toEqual([2])
    expect(linesOf(checkLines, `| ${long} |\n\n\`\`\`sh\n${long}\n\`\`\`\n[it](${long})`)).toEqual([])
  })

  it('refuses lines of more than 200 characters in the changelog', () => {
    expect(linesOf(checkChangelog, `${'x'.repeat(200)}\n${'x'.repeat(201)}`)).toEqual([2])
  })
})
