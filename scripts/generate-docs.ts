/** Writes the reference pages that come from code. With --check, fails when one is out of date. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ERRORS } from '../src/errors.ts'

const page = join(import.meta.dirname, '../docs/reference/errors.md')
const rows = Object.entries(ERRORS)
  .sort(([, a], [, b]) => a.exit - b.exit)
  .map(
    ([code, { exit, status, meaning, hint }]) =>
      `| ${exit} | \`${code}\` | ${status} | ${meaning} | ${hint || '–'} |`,
  )
const text = `# Errors and exit codes

Generated from \`src/errors.ts\` by \`npm run docs\`. An error is one line on stderr, then what to do.

| exit | code | HTTP | what it means | what to do |
|---|---|---|---|---|
| 0 | | 200 | Done. | – |
${rows.join('\n')}

Three commands use small numbers of their own. \`craik receipts verify\` exits 0 when all is well, 1 when something was
tampered with, 2 when nothing contradicts but something is missing. \`craik harness update --check\` exits 1 when
there are newer versions. \`craik shell\` exits with the command's own code:
124 after a timeout, 126 when the program could not be started, 127 when there is no such program, 128 + n when signal
n ended it, 130 after Ctrl-C.
`
if (!process.argv.includes('--check')) writeFileSync(page, text)
else if (readFileSync(page, 'utf8') !== text) {
  console.error('docs/reference/errors.md is out of date: npm run docs')
  process.exit(1)
}
