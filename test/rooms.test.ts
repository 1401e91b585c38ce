/** What a folder may import is written down here and nowhere else. */
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { describe, expect, it } from 'vitest'

const SRC = resolve(import.meta.dirname, '../src')

/** Each room may import itself, `errors.ts` and the rooms named here. */
const ROOMS: Record<string, readonly string[]> = {
  'errors.ts': [],
  lib: [],
  store: ['lib'],
  receipts: ['store', 'lib'],
  policy: ['receipts', 'store', 'lib'],
  secrets: ['policy', 'receipts', 'store', 'lib'],
  providers: ['policy', 'receipts', 'store', 'lib'],
  sandboxes: ['policy', 'receipts', 'store', 'lib'],
  run: ['providers', 'sandboxes', 'secrets', 'policy', 'receipts', 'store', 'lib'],
  cli: ['run', 'providers', 'sandboxes', 'secrets', 'policy', 'receipts', 'store', 'lib'],
  'main.ts': ['cli', 'run', 'providers', 'sandboxes', 'secrets', 'policy', 'receipts', 'store', 'lib'],
  'writer.ts': ['run', 'providers', 'sandboxes', 'secrets', 'policy', 'receipts', 'store', 'lib'],
}

const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' }).filter(
  (file) => file.endsWith('.ts') && !/\.(test|fixture)\.ts$/.test(file),
)

describe('rooms', () => {
  it('knows every room', () => {
    const found = new Set(files.map(roomOf))
    expect([...found].filter((room) => !(room in ROOMS))).toEqual([])
  })

  it.each(files)('%s imports only what its room may', (file) => {
    const room = roomOf(file)
    const allowed = ['errors.ts', room, ...ROOMS[room]!]
    const source = readFileSync(join(SRC, file), 'utf8')
    const imported = [...source.matchAll(/(?:from|import\()\s*'(\.[^']+)'/g)].map((match) =>
      relative(SRC, resolve(SRC, dirname(file), match[1]!)),
    )
    expect(imported.filter((path) => !allowed.includes(roomOf(path)))).toEqual([])
  })

  it('names the concrete store only in the two composition roots', () => {
    const naming = files.filter(
      (file) =>
        !file.startsWith('store/sqlite/') && readFileSync(join(SRC, file), 'utf8').includes('store/sqlite/'),
    )
    expect(naming.sort()).toEqual(['main.ts', 'writer.ts'])
  })
})

function roomOf(path: string): string {
  return path.split('/')[0]!
}
