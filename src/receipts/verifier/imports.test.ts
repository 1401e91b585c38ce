import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'

const files = readdirSync(import.meta.dirname).filter((name) => !/\.(test|fixture)\.ts$/.test(name))

it.each(files)('%s imports only Node modules and files of its own folder', (name) => {
  const source = readFileSync(join(import.meta.dirname, name), 'utf8')
  const imported = [...source.matchAll(/(?:^import |\bfrom |\bimport\()'([^']+)'/gm)].map(
    (match) => match[1]!,
  )
  const isOurs = (from: string) => from.startsWith('node:') || files.includes(from.replace('./', ''))
  expect(imported.filter((from) => !isOurs(from))).toEqual([])
})

it('every file of the folder is in the standalone verifier', () => {
  const script = readFileSync(join(import.meta.dirname, '../../../scripts/build-verifier.ts'), 'utf8')
  expect(files.filter((name) => !script.includes(`'${name.replace('.ts', '')}'`))).toEqual([])
})
