/**
 * Makes a unit test that starts a process fail, so that `npm run check` stays fast. Tests with processes end in
 * `.process.test.ts`.
 */
import childProcess from 'node:child_process'
import { syncBuiltinESMExports } from 'node:module'

const STARTERS = ['exec', 'execFile', 'execFileSync', 'execSync', 'fork', 'spawn', 'spawnSync'] as const

for (const name of STARTERS)
  Object.assign(childProcess, {
    [name](program: unknown): never {
      throw new Error(`a unit test starts ${String(program)}: rename its file to *.process.test.ts`)
    },
  })
syncBuiltinESMExports()
