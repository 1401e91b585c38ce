/** Checks that docs/conformance.md names the command of each group, and only tests that exist. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ROOT } from '../craik.ts'

const page = readFileSync(join(ROOT, 'docs/conformance.md'), 'utf8')
const sections = page.split(/^## /m).slice(1)
const COMMAND = /^\$ npx vitest run (test\/conformance\/\S+\.test\.ts)$/m

/** Each row that names tests, with the file and the names. */
const rows = sections.flatMap((section) => {
  const own = COMMAND.exec(section)?.[1]
  return [...section.matchAll(/^\| (.+?) \| (.*“.*) \|$/gm)].map(([, behaviour, shown]) => ({
    behaviour: behaviour!,
    file: /`(test\/\S+\.test\.ts)`/.exec(shown!)?.[1] ?? own!,
    names: [...shown!.matchAll(/“(.+?)”/g)].map(([, name]) => name!),
  }))
})

describe('the conformance page', () => {
  it('has exactly one command for each group', () => {
    const commands = sections.flatMap((section) => COMMAND.exec(section)?.[1] ?? [])
    const groups = readdirSync(import.meta.dirname)
      .filter((name) => name.endsWith('.test.ts') && name !== 'page.test.ts')
      .map((name) => `test/conformance/${name}`)
    expect(commands.toSorted()).toEqual(groups.toSorted())
  })

  it('lists every numbered behavior that has a group', () => {
    const numbers = rows.flatMap(({ behaviour }) => /^\d+/.exec(behaviour)?.[0] ?? []).map(Number)
    const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, at) => from + at)
    expect(numbers).toEqual([...range(1, 9), ...range(18, 30), ...range(32, 38)])
  })

  it.each(rows)('names only existing tests: $behaviour', ({ file, names }) => {
    const source = readFileSync(join(ROOT, file), 'utf8')
    expect(names).not.toEqual([])
    for (const name of names)
      expect(titles(source), file).toContainEqual(expect.stringMatching(asPattern(name)))
  })
})

/** Returns the names of a file's tests, and the first strings of the table rows that generate tests. */
function titles(source: string): readonly string[] {
  return [...source.matchAll(/(?:\bit\(|\btest\(|\)\(|\[|^ {4,6})\s*(['`])(.+?)\1/gms)].map(
    ([, , title]) => title!,
  )
}

/** Converts a quoted name to a pattern. `…` stands for a value from a table of cases. */
function asPattern(name: string): RegExp {
  const pieces = name.split('…').map((piece) => piece.replace(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`))
  return new RegExp(`^${pieces.join('(?:%[sj]|\\$\\{\\w+\\})')}$`)
}
