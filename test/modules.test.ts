/** The only list of the modules that each module may import. */
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { describe, expect, it } from 'vitest'

const SRC = resolve(import.meta.dirname, '../src')

/** Each module may import itself, `errors.ts` and the modules listed here. */
const MODULES: Record<string, readonly string[]> = {
  'errors.ts': [],
  lib: [],
  store: ['lib'],
  receipts: ['store', 'lib'],
  policy: ['receipts', 'store', 'lib'],
  secrets: ['policy', 'receipts', 'store', 'lib'],
  providers: ['policy', 'receipts', 'store', 'lib'],
  accounts: ['secrets', 'policy', 'receipts', 'store', 'lib'],
  gateway: ['providers', 'accounts', 'secrets', 'policy', 'receipts', 'store', 'lib'],
  /** The program in the sandbox, bundled with everything that it needs. */
  sidecar: ['lib'],
  /** May import only `protocol.ts` of the sidecar: see below. */
  sandboxes: ['policy', 'receipts', 'store', 'lib', 'sidecar'],
  /** May import only `protocol.ts` of the sidecar. */
  harnesses: ['sandboxes', 'policy', 'receipts', 'store', 'lib', 'sidecar'],
  run: ['harnesses', 'gateway', 'providers', 'sandboxes', 'secrets', 'policy', 'receipts', 'store', 'lib'],
  /** The API. May import only `protocol.ts` of the sidecar. */
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
  /** Runs as the supervisor, and also finds or starts one as a client. May import only `protocol.ts` of the sidecar. */
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
  /** Reads the transcripts of agents, from any source. */
  transcripts: ['lib'],
  /** A client of the API. May import only `operator/api/` of the operator, which contains types and limits. */
  sdk: ['lib', 'operator', 'sidecar'],
  /** The login sandbox: its settings, its work and its results. May import only `protocol.ts` of the sidecar. */
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

describe('modules', () => {
  it('are all in the list', () => {
    const found = new Set(files.map(moduleOf))
    expect([...found].filter((room) => !(room in MODULES))).toEqual([])
  })

  it.each(files)('%s imports only what its module may import', (file) => {
    const room = moduleOf(file)
    const allowed = ['errors.ts', room, ...MODULES[room]!]
    expect(importsOf(file).filter((path) => !allowed.includes(moduleOf(path)))).toEqual([])
  })

  it('import only the protocol of the sidecar, and clients only the API of the operator', () => {
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

  it('name the concrete store only in the two composition roots', () => {
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
