/**
 * Fails, with file and line, where a word is used that the glossary (docs/glossary.md) replaced: identifiers and file names in
 * all code, phrases in the strings of `src` and in rewritten pages. Pages are added to replaced-words.json as they are rewritten.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { parseAst } from 'rolldown/parseAst'

const ROOT = join(import.meta.dirname, '..')
/** Of one sentence in a rewritten page. The aim is 25. */
const SENTENCE_WORDS_MAX = 35

interface ReplacedWords {
  /** Old name to new name. */
  readonly identifiers: Readonly<Record<string, string>>
  readonly files: Readonly<Record<string, string>>
  readonly phrases: Readonly<Record<string, string>>
  /** Strings that keep a phrase, because they are stored, compared, or sent to a program. */
  readonly kept: readonly string[]
  readonly pages: readonly string[]
}

const words = JSON.parse(
  readFileSync(join(import.meta.dirname, 'replaced-words.json'), 'utf8'),
) as ReplacedWords
const phrase = new RegExp(`\\b(?:${Object.keys(words.phrases).join('|')})\\b`, 'i')
const findings: string[] = []

const tracked = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
  cwd: ROOT,
  encoding: 'utf8',
})
for (const file of tracked.split('\n')) {
  const newName = own(words.files, basename(file))
  if (newName !== undefined) findings.push(`${file}: the file is called ${newName} now`)
  if (!/^(?:src|test|bench|scripts)\/.*\.ts$/.test(file)) continue
  const text = readFileSync(join(ROOT, file), 'utf8')
  checkIdentifiers(file, text)
  if (file.startsWith('src/') && !/\.(?:test|fixture)\.ts$/.test(file)) checkStrings(file, text)
}
for (const page of words.pages) checkPage(page, readFileSync(join(ROOT, page), 'utf8'))

for (const finding of findings) console.error(finding)
if (findings.length > 0) process.exitCode = 1

function checkIdentifiers(file: string, text: string): void {
  for (const { 0: name, index } of text.matchAll(/[A-Za-z_$][\w$]*/g)) {
    const newName = own(words.identifiers, name)
    if (newName !== undefined) findings.push(`${file}:${lineAt(text, index)}: write ${newName}, not ${name}`)
  }
}

function checkStrings(file: string, text: string): void {
  const visit = (node: unknown): void => {
    if (typeof node !== 'object' || node === null) return
    const { type, value, start } = node as { type?: string; value?: unknown; start?: number }
    const string = type === 'TemplateElement' ? (value as { cooked: string }).cooked : value
    if ((type === 'Literal' || type === 'TemplateElement') && typeof string === 'string')
      checkPhrase(`${file}:${lineAt(text, start!)}`, string)
    else for (const child of Object.values(node)) visit(child)
  }
  visit(parseAst(text, { lang: 'ts' }).body)
}

function checkPhrase(where: string, text: string): void {
  const found = phrase.exec(text)?.[0]
  if (found === undefined || !text.includes(' ') || words.kept.includes(text)) return
  findings.push(`${where}: write "${words.phrases[found.toLowerCase()]}", not "${found}"`)
}

function checkPage(page: string, text: string): void {
  const prose = text.replace(/```[\s\S]*?```|`[^`\n]*`/g, (code) => code.replace(/[^\n]/g, ''))
  for (const [at, line] of prose.split('\n').entries()) {
    checkPhrase(`${page}:${at + 1}`, line)
    for (const sentence of line.split(/[.:;!?|](?:\s|$)/)) {
      const count = sentence.split(/\s+/).filter((word) => /\w/.test(word)).length
      if (count > SENTENCE_WORDS_MAX) findings.push(`${page}:${at + 1}: a sentence of ${count} words`)
    }
  }
}

function lineAt(text: string, index: number): number {
  return text.slice(0, index).split('\n').length
}

function own(record: Readonly<Record<string, string>>, name: string): string | undefined {
  return Object.hasOwn(record, name) ? record[name] : undefined
}
