import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'

const MODULE = fileURLToPath(new URL('./exit-within.ts', import.meta.url))

function runExit(before: string) {
  const program = `
    import { exitWithin } from ${JSON.stringify(MODULE)}
    ${before}
    process.exitCode = 3
    exitWithin(50, (leftOpen) => console.log('left open:', ...leftOpen))
  `
  return spawnSync(process.execPath, ['--input-type=module', '--eval', program], {
    encoding: 'utf8',
    timeout: 60_000,
  })
}

describe('a process that has finished its work', () => {
  it('exits by itself when nothing is open', () => {
    expect(runExit('')).toMatchObject({ status: 3, stdout: '' })
  })

  it('exits with its exit code although something is open, and reports what', () => {
    const ran = runExit('setInterval(() => {}, 1000)')
    expect(ran.status).toBe(3)
    expect(ran.stdout).toMatch(/^left open: .*Timeout/)
  })
})
