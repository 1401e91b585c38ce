/**
 * Fails, with file and line, when a text does not follow the glossary (docs/glossary.md). It finds replaced identifiers
 * and file names, replaced phrases in strings, comments, test names and pages, and long sentences and lines in pages.
 * It also finds literals that are spread into literals. The words are in replaced-words.json.
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
  exportedNames,
} from './words/check-code.ts'
import { checkChangelog, checkLines, checkProse } from './words/check-page.ts'
import { lineAt, own, type Report, WORDS } from './words/findings.ts'

const ROOT = join(import.meta.dirname, '..')

/** A later change removes these files. Their comments and names are older, and they repeat names of others. */
const OLD_FILES = /^src\/(?:providers\/(?:adapters\/|dispatch)|sandboxes\/.*command-backend)|\/tokens\.ts$/

const findings: string[] = []
const exporters = new Map<string, string[]>()
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
  if (/^src\/.*(?<!\.test)\.ts$/.test(file) && !OLD_FILES.test(file))
    for (const name of exportedNames(text)) exporters.set(name, [...(exporters.get(name) ?? []), file])
}
for (const [name, files] of exporters)
  if (files.length > 1)
    findings.push(`${name} is exported by ${files.join(' and ')}: an exported name exists once`)

for (const finding of findings) console.error(finding)
if (findings.length > 0) process.exitCode = 1

function checksOf(file: string): readonly ((text: string, report: Report) => void)[] {
  if (file === 'CHANGELOG.md') return [checkChangelog]
  if (file === 'SECURITY.md' || file === 'CONTRIBUTING.md') return [checkProse]
  if (file === 'README.md' || /^docs\/.*\.md$/.test(file)) return [checkProse, checkLines]
  if (!/^(?:src|test|bench|scripts)\/.*\.ts$/.test(file)) return []
  const isOfUsers = file.startsWith('src/') && !/\.(?:test|fixture)\.ts$/.test(file)
  return [
    checkIdentifiers,
    checkSpreads,
    ...(isOfUsers ? [checkStrings] : []),
    ...(OLD_FILES.test(file) ? [] : [checkComments, checkTestNames]),
  ]
}

/** Returns `undefined` for a file that was removed while git still tracks it. */
function read(file: string): string | undefined {
  try {
    return readFileSync(join(ROOT, file), 'utf8')
  } catch {
    return undefined
  }
}
