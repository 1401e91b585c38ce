import { expect, it } from 'vitest'
import type { CliContext } from './context.ts'
import { NOUNS } from './nouns.ts'
import { runCommand } from './run-command.ts'

async function helpOf(argv: readonly string[]): Promise<string> {
  let text = ''
  const stdout = {
    columns: 80,
    write(piece: string) {
      text += piece
    },
  }
  await runCommand({ stdout, environment: {} } as unknown as CliContext, NOUNS, [...argv, '--help'])
  return text
}

async function tooWide(argv: readonly string[]): Promise<string[]> {
  const help = await helpOf(argv)
  const [, verbs = ''] = /\nCommands:\n([\s\S]*?)\n(?:\n|$)/.exec(help) ?? []
  const names = [...verbs.matchAll(/^ {2}([a-z][\w-]*)/gm)].map(([, name]) => name!)
  const below = await Promise.all(names.map((name) => tooWide([...argv, name])))
  // Lines with a command to copy may be longer.
  const own = help.split('\n').filter((line) => line.length > 80 && !line.startsWith('  craik '))
  return [...own, ...below.flat()]
}

it.each(NOUNS.map(({ name }) => name))('the help of craik %s and its verbs fits 80 columns', async (noun) => {
  expect(await tooWide([noun])).toEqual([])
})
