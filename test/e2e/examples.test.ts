/** The examples of the help, typed as a reader would. */
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { delimiter } from 'node:path'
import { expect, it } from 'vitest'
import { NOUNS } from '../../src/cli/nouns.ts'
import { ERRORS } from '../../src/errors.ts'
import { builtMain, environmentOf, NODE, run, TestHome } from '../craik.ts'
import { examplesIn } from './help.ts'

/** How a command line is refused for how it is written. */
const REFUSAL = /unknown (command|option)|missing required|too many|is invalid|not found|should not/

it('every noun and verb has an example, and every example can be typed', async () => {
  using home = new TestHome()
  const examples = new Set<string>(examplesIn((await home.run(['help', '--all'])).stdout))
  const withoutExample: string[] = []
  const visit = async (words: readonly string[]): Promise<void> => {
    const { code, stdout } = await home.run([...words, '--help'])
    expect(code).toBe(0)
    const found = examplesIn(stdout)
    if (found.length === 0) withoutExample.push(words.join(' '))
    for (const example of found) examples.add(example)
    for (const verb of verbsIn(stdout)) await visit([...words, verb])
  }
  await Promise.all(NOUNS.map(({ name }) => visit([name])))
  expect(withoutExample).toEqual([])
  expect(examples.size).toBeGreaterThan(20)

  await using place = await homeForExamples()
  const refused: string[] = []
  await Promise.all(
    Array.from({ length: 3 }, async (_, worker) => {
      for (const [i, example] of [...examples].entries()) {
        if (i % 3 !== worker) continue
        // What an example names may not be here yet (the examples run in any order); its words may not be wrong.
        const { code, stderr } = await place.type(example)
        if (code !== ERRORS.not_found.exit && REFUSAL.test(stderr)) refused.push(`${example}: ${stderr}`)
      }
    }),
  )
  expect(refused).toEqual([])
})

function verbsIn(help: string): string[] {
  const [, commands = ''] = help.split(/^Commands:$/m)
  return [...commands.split(/^Examples?:$/m)[0]!.matchAll(/^ {2}([a-z-]+)/gm)].map(([, name]) => name!)
}

/** A folder with the files that the examples name, and `craik` on the path, as a reader of the help would have it. */
async function homeForExamples() {
  const home = new TestHome()
  await home.json(['shell', 'true'])
  const save = async (name: string, args: string[]) =>
    writeFileSync(home.path(name), (await home.run(args)).stdout)
  await save('monday.txt', ['receipts', 'checkpoint', 'export'])
  mkdirSync(home.path('bin'))
  writeFileSync(home.path('bin/craik'), `#!/bin/sh\nexec '${NODE}' '${builtMain()}' "$@"\n`)
  chmodSync(home.path('bin/craik'), 0o755)
  const env = {
    ...environmentOf(home),
    PATH: [home.path('bin'), process.env.PATH].join(delimiter),
    // What an example fetches is tried elsewhere; here it is told at once that it cannot be had.
    npm_config_offline: 'true',
  }
  return {
    /** As typed; what would go on until Ctrl-C gets it after a while. */
    type: (example: string) =>
      run('timeout', ['--signal=INT', '30', '/bin/sh', '-c', example.replace(' --follow', '')], {
        cwd: home.folder,
        env,
        input: 'a value\n',
      }),
    async [Symbol.asyncDispose]() {
      await home.run(['sandbox', 'delete', '--all', '--yes'])
      await home.run(['supervisor', 'stop'])
      home[Symbol.dispose]()
    },
  }
}
