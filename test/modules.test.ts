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
  accounts: ['secrets', 'policy', 'receipts', 'store', 'lib'],
  gateway: ['providers', 'accounts', 'secrets', 'policy', 'receipts', 'store', 'lib'],
  /** The program inside: what it needs, it brings along. */
  sidecar: ['lib'],
  /** Of the sidecar only `protocol.ts`: see below. */
  sandboxes: ['policy', 'receipts', 'store', 'lib', 'sidecar'],
  /** Of the sidecar only `protocol.ts`. */
  harnesses: ['sandboxes', 'policy', 'receipts', 'store', 'lib', 'sidecar'],
  run: ['harnesses', 'gateway', 'providers', 'sandboxes', 'secrets', 'policy', 'receipts', 'store', 'lib'],
  /** The API. Of the sidecar only `protocol.ts`. */
  operator: [
    'run',
    'gateway',
    'accounts',
    'providers',
    'sandboxes',
    'secrets',
    'policy',
    'receipts',
    'store',
    'lib',
    'sidecar',
  ],
  /** Besides being one, it finds and starts one: then it is a client. Of the sidecar only `protocol.ts`. */
  supervisor: [
    'login-sandbox',
    'sidecar',
    'operator',
    'sdk',
    'run',
    'gateway',
    'accounts',
    'providers',
    'sandboxes',
    'secrets',
    'policy',
    'receipts',
    'store',
    'lib',
  ],
  /** What agents wrote down of themselves, wherever it comes from. */
  transcripts: ['lib'],
  /** A client of the API: of the operator only `operator/api/`, which is types and limits. */
  sdk: ['lib', 'operator', 'sidecar'],
  /** One login's sandbox: what it is to be, what is done in it, and what is kept of it. Of the sidecar only `protocol.ts`. */
  'login-sandbox': [
    'transcripts',
    'harnesses',
    'accounts',
    'sandboxes',
    'policy',
    'receipts',
    'store',
    'lib',
    'sidecar',
  ],
  cli: [
    'login-sandbox',
    'transcripts',
    'supervisor',
    'operator',
    'sdk',
    'sidecar',
    'run',
    'harnesses',
    'gateway',
    'accounts',
    'providers',
    'sandboxes',
    'secrets',
    'policy',
    'receipts',
    'store',
    'lib',
  ],
  'main.ts': [
    'supervisor',
    'operator',
    'sdk',
    'cli',
    'run',
    'harnesses',
    'gateway',
    'accounts',
    'providers',
    'sandboxes',
    'secrets',
    'policy',
    'receipts',
    'store',
    'lib',
  ],
  'writer.ts': [
    'run',
    'gateway',
    'accounts',
    'providers',
    'sandboxes',
    'secrets',
    'policy',
    'receipts',
    'store',
    'lib',
  ],
}

const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' }).filter(
  (file) => file.endsWith('.ts') && !/\.(test|fixture)\.ts$/.test(file),
)

describe('rooms', () => {
  it('knows every room', () => {
    const found = new Set(files.map(moduleOf))
    expect([...found].filter((room) => !(room in ROOMS))).toEqual([])
  })

  it.each(files)('%s imports only what its room may', (file) => {
    const room = moduleOf(file)
    const allowed = ['errors.ts', room, ...ROOMS[room]!]
    expect(importsOf(file).filter((path) => !allowed.includes(moduleOf(path)))).toEqual([])
  })

  it('of the sidecar only its protocol is imported, of the operator a client sees only the API', () => {
    const crossing = files.flatMap((file) =>
      importsOf(file)
        .filter(
          (path) =>
            (path.startsWith('sidecar/') && moduleOf(file) !== 'sidecar' && path !== 'sidecar/protocol.ts') ||
            (path.startsWith('operator/') && moduleOf(file) === 'sdk' && !path.startsWith('operator/api/')),
        )
        .map((path) => `${file} → ${path}`),
    )
    expect(crossing).toEqual([])
  })

  it('names the concrete store only in the two composition roots', () => {
    const naming = files.filter(
      (file) =>
        !file.startsWith('store/sqlite/') && readFileSync(join(SRC, file), 'utf8').includes('store/sqlite/'),
    )
    expect(naming.sort()).toEqual(['main.ts', 'writer.ts'])
  })
})

function importsOf(file: string): string[] {
  const source = readFileSync(join(SRC, file), 'utf8')
  return [...source.matchAll(/(?:from|import\()\s*'(\.[^']+)'/g)].map((match) =>
    relative(SRC, resolve(SRC, dirname(file), match[1]!)),
  )
}

function moduleOf(path: string): string {
  return path.split('/')[0]!
}
