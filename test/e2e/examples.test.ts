/** Runs the examples of the help, as a reader types them. */
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { delimiter } from 'node:path'
import { expect, it } from 'vitest'
import { NOUNS } from '../../src/cli/nouns.ts'
import { ERRORS } from '../../src/errors.ts'
import { builtMain, environmentOf, NODE, run, TestHome } from '../craik.ts'
import { examplesIn } from './help.ts'

/** Matches the errors about how a command line is written. */
const REFUSAL = /unknown (command|option)|missing required|too many|is invalid|not found|should not/

it('every noun and verb has an example, and every example is a valid command line', async () => {
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
        // The object of an example may not exist yet, because the examples run in any order. The words of the example
        // must be valid.
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

/** Creates a folder with the files that the examples name and with `craik` on the PATH, as for a reader of the help. */
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
    // Other tests cover the downloads of examples. Here npm fails at once, because it is offline.
    npm_config_offline: 'true',
  }
  return {
    /** Runs the example as typed. A command that runs until Ctrl-C gets SIGINT after 30 s. */
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
