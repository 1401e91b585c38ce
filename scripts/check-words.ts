/**
 * Fails, with file and line, where a text does not follow the glossary (docs/glossary.md): replaced identifiers and file names,
 * replaced phrases in strings, comments, names of tests and pages, long sentences and lines in pages, and literals that are spread
 * into literals. The words are in replaced-words.json.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import {
  checkComments,
  checkIdentifiers,
  checkSpreads,
  checkStrings,
  checkTestNames,
} from './words/check-code.ts'
import { checkChangelog, checkLines, checkProse } from './words/check-page.ts'
import { lineAt, own, type Report, WORDS } from './words/findings.ts'

const ROOT = join(import.meta.dirname, '..')

/** Folders whose comments and names of tests are in plain English, such as `src/policy/`. The aim: src, test, bench, scripts. */
const CLEAN_FOLDERS: readonly string[] = []

const findings: string[] = []
const tracked = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
  cwd: ROOT,
  encoding: 'utf8',
})
for (const file of new Set(tracked.split('\n'))) {
  const newName = own(WORDS.files, basename(file))
  if (newName !== undefined) findings.push(`${file}: the file is called ${newName} now`)
  const checks = checksOf(file)
  const text = checks.length === 0 ? undefined : read(file)
  if (text === undefined) continue
  const report: Report = (index, message) => findings.push(`${file}:${lineAt(text, index)}: ${message}`)
  for (const check of checks) check(text, report)
}

for (const finding of findings) console.error(finding)
if (findings.length > 0) process.exitCode = 1

function checksOf(file: string): readonly ((text: string, report: Report) => void)[] {
  if (file === 'CHANGELOG.md') return [checkChangelog]
  if (file === 'SECURITY.md' || file === 'CONTRIBUTING.md') return [checkProse]
  if (file === 'README.md' || /^docs\/.*\.md$/.test(file)) return [checkProse, checkLines]
  if (!/^(?:src|test|bench|scripts)\/.*\.ts$/.test(file)) return []
  const isOfUsers = file.startsWith('src/') && !/\.(?:test|fixture)\.ts$/.test(file)
  const isClean = CLEAN_FOLDERS.some((folder) => file.startsWith(folder))
  return [
    checkIdentifiers,
    checkSpreads,
    ...(isOfUsers ? [checkStrings] : []),
    ...(isClean ? [checkComments, checkTestNames] : []),
  ]
}

/** Undefined: it was removed, and git does not know that yet. */
function read(file: string): string | undefined {
  try {
    return readFileSync(join(ROOT, file), 'utf8')
  } catch {
    return undefined
  }
}
