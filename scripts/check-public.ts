/**
 * Fails, with file, line and rule, when a public page or a fixture contains something that the public boundary forbids.
 */
import { join } from 'node:path'
import { checkPublic } from './public-boundary/check.ts'

const { files, findings } = checkPublic(join(import.meta.dirname, '..'))
for (const { file, line, rule, what, instead } of findings)
  console.error(`${file}:${line} ${rule}: ${what}\n  write instead: ${instead}`)
if (findings.length > 0) {
  console.error(
    `\n${findings.length} findings in ${files} public files. Samples that are there on purpose are listed in scripts/public-boundary/deliberate.ts.`,
  )
  process.exitCode = 1
}
