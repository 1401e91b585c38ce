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
  /** True when the package is in the archive of the package that contains it. Then the hash of that archive counts. */
  readonly inBundle?: boolean
  readonly optionalDependencies?: Readonly<Record<string, string>>
}

describe.each(PACKAGE_NAMES)('the recipe of %s', (name) => {
  const source = readPackage(name, 'x64')
  const lock = JSON.parse(source.files['package-lock.json'].toString()) as {
    packages: Record<string, Locked>
  }
  const { '': _, ...locked } = lock.packages

  it('has an id with its name, its version and a digest of its content', () => {
    expect(isHarnessId(source.id)).toBe(true)
    expect([harnessName(source.id), harnessVersion(source.id)]).toEqual([name, source.version])
  })

  it('pins exact versions', () => {
    for (const version of Object.values(source.packages)) expect(version).toMatch(/^\d+\.\d+\.\d+$/)
    expect(Object.values(source.packages)).toContain(source.version)
  })

  it('has a hash of each package and names no registry', () => {
    for (const { version, integrity, resolved, inBundle } of Object.values(locked)) {
      expect(version).toMatch(/^\d/)
      if (inBundle) expect(name).toBe('npm')
      else expect(integrity).toMatch(/^sha512-/)
      expect(resolved).toBeUndefined()
    }
    expect(JSON.stringify(lock)).not.toMatch(/https?:\/\/[^"]*(?:registry|npm)[^"]*/)
  })

  it('lists no unneeded package in its lock file, not even as an optional dependency', () => {
    const wished = Object.values(locked).flatMap(({ optionalDependencies = {} }) =>
      Object.keys(optionalDependencies),
    )
    const all = [...Object.keys(locked).map((path) => path.split('node_modules/').at(-1)!), ...wished]
    for (const pattern of source.settings.leftOut)
      expect(all.filter((one) => matcherOf(pattern).test(one))).toEqual([])
  })

  it('contains no MCP server, only the library with which an agent connects to one', () => {
    const names = Object.keys(locked).map((path) => path.split('node_modules/').at(-1)!)
    const isOfProtocol = (name: string) => /modelcontextprotocol|(?:^|[/-])mcp(?:$|-)/.test(name)
    expect(names.filter(isOfProtocol).filter((name) => name !== '@modelcontextprotocol/sdk')).toEqual([])
  })

  it('takes its programs from packages in its lock file or from files next to it', () => {
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

  it('is equal for the same recipe and changes with every part of it', () => {
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

  it('does not exist for a recipe with a program outside its npm packages and its own files', () => {
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

describe('harness names', () => {
  it('appear once and in the order of the layers, in whatever order they were typed', () => {
    expect(parseHarnesses('codex,claude-code, codex')).toEqual(['codex', 'claude-code'])
    expect(parseHarnesses('claude-code,codex')).toEqual(['codex', 'claude-code'])
    expect(parseHarnesses('all')).toEqual(PACKAGED_HARNESS_NAMES)
    expect(parseHarnesses('codex,npm')).toEqual(['npm', 'codex'])
  })

  it('that are unknown cause an error that lists the known names', () => {
    for (const typed of ['', 'cursor', 'codex,', '--x', 'Codex'])
      expect(() => parseHarnesses(typed)).toThrow(expect.objectContaining({ code: 'usage' }))
    expect(() => checkHarnesses(['x'])).toThrow(
      expect.objectContaining({
        hint: 'use one of: all, claude-code, codex, gemini, kimi, opencode or npm',
      }),
    )
  })

  it('are refused when the harness does not run on this kind of processor', () => {
    expect(() => readHarness('opencode', 'arm64')).toThrow(expect.objectContaining({ code: 'unavailable' }))
    expect(() => readHarness('codex', 'riscv64')).toThrow(expect.objectContaining({ code: 'unavailable' }))
    expect(readHarness('codex', 'arm64').id).not.toBe(readHarness('codex', 'x64').id)
  })
})
