import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { tempFolder } from '../test/temp-folder.ts'
import { findBrokenLinks, headingAnchors } from './check-links.ts'

function pages(files: Readonly<Record<string, string>>): string {
  const folder = tempFolder('craik-links-')
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(join(folder, name, '..'), { recursive: true })
    writeFileSync(join(folder, name), text)
  }
  return folder
}

it('accepts links and paths that exist', () => {
  const root = pages({
    'README.md':
      '[a](docs/a.md) [b](docs/a.md#two-words) [c](#here) [d](https://x.example/y) `src/a.ts` src/*.ts\n## Here\n',
    'docs/a.md': '# Two `words`\n[up](../README.md#here)\n```console\n[no](no.md) src/no.ts\n```\n',
    'docs/how-to/b.md': 'Change `src/price.js`, then see [a](../a.md).\n',
    'src/a.ts': '',
  })
  expect(findBrokenLinks(root)).toEqual([])
})

it('names each link and path that does not exist, with its line', () => {
  const root = pages({
    'README.md': '\n[a](docs/b.md) [b](docs/a.md#three) [c](#there) `src/b.ts`, test/*.ts.\n',
    'docs/a.md': '# Two words\n',
  })
  expect(findBrokenLinks(root)).toEqual(
    ['docs/b.md', 'docs/a.md#three', '#there', 'src/b.ts', 'test/*.ts'].map(
      (each) => `README.md:2: ${each} does not exist`,
    ),
  )
})

it('computes the anchors of headings as GitHub does', () => {
  const page = '# `craik sandbox create`\n## It’s (so) 50 %: done\n## A [link](x.md)\n## Again\n## Again\n'
  expect([...headingAnchors(page)]).toEqual([
    'craik-sandbox-create',
    'its-so-50--done',
    'a-link',
    'again',
    'again-1',
  ])
})
