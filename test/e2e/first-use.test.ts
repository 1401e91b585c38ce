/** The first minute of a new user: a clone, nothing installed, an empty home. */
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ROOT, run, TestHome } from '../craik.ts'

describe('./craik in a fresh clone', () => {
  it('installs its dependencies, says so and runs the command, also when it is started twice at once', async () => {
    using home = new TestHome()
    const clone = home.path('clone')
    for (const file of execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
      cwd: ROOT,
    })
      .toString()
      .split('\0')
      .filter((name) => name !== '')) {
      mkdirSync(dirname(join(clone, file)), { recursive: true })
      cpSync(join(ROOT, file), join(clone, file))
    }
    const env = {
      PATH: withoutNodeModules(process.env.PATH!),
      HOME: process.env.HOME!,
      CRAIK_HOME: home.home,
      ...(process.env.NODE_EXTRA_CA_CERTS && { NODE_EXTRA_CA_CERTS: process.env.NODE_EXTRA_CA_CERTS }),
    }
    const [first, second] = await Promise.all(
      ['one', 'two'].map((word) =>
        run(join(clone, 'craik'), ['shell', `echo ${word}`], { env, cwd: home.folder }),
      ),
    )
    expect([first!.code, second!.code], first!.stderr + second!.stderr).toEqual([0, 0])
    expect(JSON.parse(first!.stdout)).toMatchObject({ exit_code: 0, stdout: { preview: 'one\n' } })
    expect(JSON.parse(second!.stdout)).toMatchObject({ exit_code: 0, stdout: { preview: 'two\n' } })
    expect(first!.stderr + second!.stderr).toMatch(/first start: installing/)

    const again = await run(join(clone, 'craik'), ['receipts', 'verify'], { env, cwd: home.folder })
    expect(again).toMatchObject({ code: 0, stderr: '' })
    expect(JSON.parse(again.stdout)).toMatchObject({ outcome: 'ok', receipts: 4 })
  })
})

/** npm puts its own folders first in PATH. The shell of a new user does not have them. */
function withoutNodeModules(path: string): string {
  return path
    .split(':')
    .filter((folder) => !folder.includes('node_modules'))
    .join(':')
}
