/**
 * Locks the agents' command lines and npm again after a version in `image/harnesses/NAME/package.json` changed: `node
 * scripts/lock-harnesses.ts [NAME…]`. npm cannot omit an optional package from a lock file, so this script removes
 * those.
 */
import { spawnSync } from 'node:child_process'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { checkHarnesses, PACKAGE_NAMES } from '../src/harnesses/packages/harness-catalogue.ts'
import { matcherOf } from '../src/harnesses/packages/prune-tree.ts'

interface Lock {
  packages: Record<string, { optionalDependencies?: Record<string, string> }>
}

const typed = process.argv.slice(2)
for (const name of checkHarnesses(typed.length === 0 ? PACKAGE_NAMES : typed)) {
  const folder = join(import.meta.dirname, '../image/harnesses', name)
  const path = join(folder, 'package-lock.json')
  rmSync(path, { force: true })
  const { status } = spawnSync(
    'npm',
    ['install', '--package-lock-only', '--ignore-scripts', '--omit-lockfile-registry-resolved', '--no-audit'],
    { cwd: folder, stdio: ['ignore', 'inherit', 'inherit'] },
  )
  if (status !== 0) throw new Error(`npm could not lock ${name}`)
  const { leftOut } = JSON.parse(readFileSync(join(folder, 'harness.json'), 'utf8')) as { leftOut: string[] }
  const goes = leftOut.map(matcherOf)
  const isLeftOut = (one: string) => goes.some((matches) => matches.test(one))
  const lock = JSON.parse(readFileSync(path, 'utf8')) as Lock
  for (const [at, locked] of Object.entries(lock.packages)) {
    if (at === '') continue
    if (isLeftOut(at.split('node_modules/').at(-1)!)) delete lock.packages[at]
    const wished = Object.entries(locked.optionalDependencies ?? {}).filter(([one]) => !isLeftOut(one))
    if (wished.length > 0) locked.optionalDependencies = Object.fromEntries(wished)
    else delete locked.optionalDependencies
  }
  writeFileSync(path, `${JSON.stringify(lock, null, 2)}\n`)
}
