/** With CI=true, a skipped test fails the run, unless its name contains `../shared` and that folder is missing. */
import { existsSync } from 'node:fs'
import type { Reporter, TestModule } from 'vitest/node'

export default class NoSilentSkips implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const shared = existsSync(new URL('../../shared', import.meta.url))
    const skipped = modules.flatMap((module) => [...module.children.allTests('skipped')])
    const unexcused = skipped.filter((test) => shared || !test.fullName.includes('../shared'))
    for (const test of skipped) process.stderr.write(`skipped: ${test.fullName}\n`)
    if (unexcused.length === 0) return
    process.stderr.write(
      `${unexcused.length} skipped on a machine that could run them: this is a failure with CI=true\n`,
    )
    process.exitCode = 1
  }
}
