/**
 * Writes docs/verify/craik-verify.mjs, the verifier as one file for auditors. It contains the files of
 * src/receipts/verifier in reading order, without types and exports but with their comments. With `--check`, it writes
 * nothing and fails if the file differs.
 */
import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'

const READING_ORDER = [
  'report',
  'merkle',
  'signed-notes',
  'receipt-line',
  'chain',
  'log-verifier',
  'diagnosis',
  'verify-files',
  'main',
]
const IMPORT = /^import [^']+'([^']+)'\n/gm

const root = new URL('..', import.meta.url)
const target = new URL('docs/verify/craik-verify.mjs', root)

const sources = READING_ORDER.map((name) => withoutTypes(`src/receipts/verifier/${name}.ts`))
const imports = sources.flatMap((source) => [...source.matchAll(IMPORT)])
const builtins = new Set(imports.filter(([, from]) => from!.startsWith('node:')).map(([line]) => line))
const [opening, ...sections] = sources.map((source) => source.replace(IMPORT, '').replace(/^export /gm, ''))
const built = format(
  `#!/usr/bin/env node\n${opening!.trim()}\n${[...builtins].join('')}\n${sections.map(withBanner).join('\n')}`,
)

if (process.argv.includes('--check')) {
  if (readFileSync(target, 'utf8') !== built) {
    console.error(
      'docs/verify/craik-verify.mjs is not what its sources give: run node scripts/build-verifier.ts',
    )
    process.exitCode = 1
  }
} else writeFileSync(target, built)

/** Removes the types, together with the comments that document them. */
function withoutTypes(path: string): string {
  const source = readFileSync(new URL(path, root), 'utf8')
  const documented = /\/\*\*(?:(?!\*\/)[\s\S])*\*\/\n(?=(?:export )?(?:interface|type) )/g
  const lintNote = /^\/\/ biome-ignore .*\n/gm
  return stripTypeScriptTypes(source.replace(documented, '').replace(lintNote, ''), { mode: 'strip' })
}

/** Turns the numbered comment at the top of a file into the banner of its section. */
function withBanner(source: string): string {
  const [opening, sentence] = /^\/\*\* (\d\. .*) \*\/\n/.exec(source) ?? []
  if (!opening)
    throw new Error(`a file of the verifier does not open with its number: ${source.slice(0, 80)}`)
  return `// ------ ${sentence}\n\n${source.slice(opening.length).trimStart()}`
}

/** Closes the gaps that the removed types left. */
function format(source: string): string {
  const biome = new URL('node_modules/.bin/biome', root).pathname
  const args = ['format', '--stdin-file-path=src/receipts/craik-verify.mjs']
  const { status, stdout, stderr } = spawnSync(biome, args, { cwd: root, input: source, encoding: 'utf8' })
  if (status !== 0) throw new Error(`the formatter failed: ${stderr}`)
  return stdout
}
