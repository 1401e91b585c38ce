import { describe, expect, it } from 'vitest'
import { harnessName, harnessVersion, isHarnessId } from '../../sandboxes/harness-package.ts'
import {
  checkHarnesses,
  type HarnessParts,
  PACKAGE_NAMES,
  PACKAGED_HARNESS_NAMES,
  parseHarnesses,
  readHarness,
  readPackage,
  readParts,
  sourceFrom,
} from './harness-catalogue.ts'
import { matcherOf } from './prune-tree.ts'
import { fileOf } from './wrappers.ts'

interface Locked {
  readonly version?: string
  readonly integrity?: string
  readonly resolved?: string
  /** It is in the archive of the package that it lies in, whose hash counts. */
  readonly inBundle?: boolean
  readonly optionalDependencies?: Readonly<Record<string, string>>
}

describe.each(PACKAGE_NAMES)('the recipe of %s', (name) => {
  const source = readPackage(name, 'x64')
  const lock = JSON.parse(source.files['package-lock.json'].toString()) as {
    packages: Record<string, Locked>
  }
  const { '': _, ...locked } = lock.packages

  it('has an id of its name, its version and what goes into it', () => {
    expect(isHarnessId(source.id)).toBe(true)
    expect([harnessName(source.id), harnessVersion(source.id)]).toEqual([name, source.version])
  })

  it('pins exact versions', () => {
    for (const version of Object.values(source.packages)) expect(version).toMatch(/^\d+\.\d+\.\d+$/)
    expect(Object.values(source.packages)).toContain(source.version)
  })

  it('has a hash of each package, and names no registry', () => {
    for (const { version, integrity, resolved, inBundle } of Object.values(locked)) {
      expect(version).toMatch(/^\d/)
      if (inBundle) expect(name).toBe('npm')
      else expect(integrity).toMatch(/^sha512-/)
      expect(resolved).toBeUndefined()
    }
    expect(JSON.stringify(lock)).not.toMatch(/https?:\/\/[^"]*(?:registry|npm)[^"]*/)
  })

  it('has none of the packages that nothing needs in its lock, not even as a wish', () => {
    const wished = Object.values(locked).flatMap(({ optionalDependencies = {} }) =>
      Object.keys(optionalDependencies),
    )
    const all = [...Object.keys(locked).map((path) => path.split('node_modules/').at(-1)!), ...wished]
    for (const pattern of source.settings.leftOut)
      expect(all.filter((one) => matcherOf(pattern).test(one))).toEqual([])
  })

  it('brings no MCP server, only what an agent speaks to one with', () => {
    const names = Object.keys(locked).map((path) => path.split('node_modules/').at(-1)!)
    const isOfProtocol = (name: string) => /modelcontextprotocol|(?:^|[/-])mcp(?:$|-)/.test(name)
    expect(names.filter(isOfProtocol).filter((name) => name !== '@modelcontextprotocol/sdk')).toEqual([])
  })

  it('takes its programs from packages that are in its lock, or from beside it', () => {
    for (const program of Object.values(source.settings.programs)) {
      if ('runtime' in program) continue
      const file = fileOf(program, 'x64')
      if (file in source.own) continue
      expect(Object.keys(locked).some((path) => file.startsWith(`${path}/`))).toBe(true)
    }
  })
})

describe('the key of a harness', () => {
  const parts = readParts('codex')
  const changePart = (part: Exclude<keyof HarnessParts, 'own'>, change: (text: string) => string) =>
    sourceFrom('codex', { ...parts, [part]: Buffer.from(change(parts[part].toString())) }, 'x64').key

  it('is the same for the same recipe, and another one when anything in it changes', () => {
    const key = readHarness('codex', 'x64').key
    expect(sourceFrom('codex', parts, 'x64').key).toBe(key)
    const others = [
      changePart('package.json', (text) => text.replace('0.166.0', '0.166.1')),
      changePart('package-lock.json', (text) => `${text} `),
      changePart('harness.json', (text) => text.replace('Codex', 'Kodex')),
      sourceFrom('codex', { ...parts, own: { 'untrusting.mjs': Buffer.from('') } }, 'x64').key,
      sourceFrom('codex', parts, 'arm64').key,
      sourceFrom('kimi', parts, 'x64').key,
    ]
    expect(new Set([key, ...others]).size).toBe(7)
  })

  it('refuses a recipe whose programs lie neither in what npm installs nor beside it', () => {
    for (const path of [
      'sub/untrusting.mjs',
      '../untrusting.mjs',
      'index.js',
      '../../bin/sh',
      '/bin/sh',
      'node_modules/../x',
      'node_modules/a b',
      'node_modules/$(x)',
    ])
      expect(() =>
        changePart('harness.json', (text) =>
          text.replace(/"node": "[^"]+"/, `"node": ${JSON.stringify(path)}`),
        ),
      ).toThrow()
  })
})

describe('names', () => {
  it('are each once and in the order of the layers, whatever the order in which they were typed', () => {
    expect(parseHarnesses('codex,claude-code, codex')).toEqual(['codex', 'claude-code'])
    expect(parseHarnesses('claude-code,codex')).toEqual(['codex', 'claude-code'])
    expect(parseHarnesses('all')).toEqual(PACKAGED_HARNESS_NAMES)
    expect(parseHarnesses('codex,npm')).toEqual(['npm', 'codex'])
  })

  it('that are unknown are told, with those that are known', () => {
    for (const typed of ['', 'cursor', 'codex,', '--x', 'Codex'])
      expect(() => parseHarnesses(typed)).toThrow(expect.objectContaining({ code: 'usage' }))
    expect(() => checkHarnesses(['x'])).toThrow(
      expect.objectContaining({
        hint: 'use one of: all, claude-code, codex, gemini, kimi, opencode or npm',
      }),
    )
  })

  it('of one that does not run on this kind of processor are refused', () => {
    expect(() => readHarness('opencode', 'arm64')).toThrow(expect.objectContaining({ code: 'unavailable' }))
    expect(() => readHarness('codex', 'riscv64')).toThrow(expect.objectContaining({ code: 'unavailable' }))
    expect(readHarness('codex', 'arm64').id).not.toBe(readHarness('codex', 'x64').id)
  })
})
