/** Writes the reference pages that come from code. With `--check`, it fails when one is out of date. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { commandsPage } from './docs/commands-page.ts'
import { configurationGaps, configurationPage } from './docs/configuration-page.ts'
import { errorsPage } from './docs/errors-page.ts'

const FOLDER = join(import.meta.dirname, '../docs/reference')
const pages: Readonly<Record<string, string>> = {
  'commands.md': await commandsPage(),
  'configuration.md': configurationPage(),
  'errors.md': errorsPage(),
}

for (const [name, text] of Object.entries(pages)) {
  const path = join(FOLDER, name)
  if (!process.argv.includes('--check')) writeFileSync(path, text)
  else if (read(path) !== text) fail(`docs/reference/${name} is out of date: npm run docs`)
}
for (const gap of configurationGaps()) fail(`docs/reference/configuration.md: ${gap}`)

function fail(message: string): void {
  console.error(message)
  process.exitCode = 1
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}
