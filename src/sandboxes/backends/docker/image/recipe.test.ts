import { describe, expect, it } from 'vitest'
import { allPackages, baseKey, harnessKey, readRecipe, sandboxKey } from './recipe.ts'

const recipe = readRecipe()
const base = baseKey(recipe, [], 'x64')

describe('the key of a root file system', () => {
  it('is the same for the same inputs, whatever the order of packages', () => {
    expect(baseKey(readRecipe(), [], 'x64')).toBe(base)
    expect(baseKey(recipe, ['jq', 'ripgrep'], 'x64')).toBe(baseKey(recipe, ['ripgrep', 'jq'], 'x64'))
    expect(baseKey(recipe, ['git'], 'x64')).toBe(base)
  })

  it.each([
    ['another package', baseKey(recipe, ['jq'], 'x64')],
    ['another machine', baseKey(recipe, [], 'arm64')],
    ['another suite', baseKey({ ...recipe, suite: 'trixie' }, [], 'x64')],
    ['another time', baseKey({ ...recipe, epochSeconds: 1 }, [], 'x64')],
    ['one package less', baseKey({ ...recipe, packages: recipe.packages.slice(1) }, [], 'x64')],
    ['another argument', baseKey({ ...recipe, mmdebstrap: [] }, [], 'x64')],
    ['another Dockerfile', baseKey({ ...recipe, dockerfile: `${recipe.dockerfile}#` }, [], 'x64')],
    [
      'another script',
      baseKey({ ...recipe, scripts: { ...recipe.scripts, apt: Buffer.from('') } }, [], 'x64'),
    ],
  ])('changes with %s', (_, other) => {
    expect(other).toMatch(/^[0-9a-f]{64}$/)
    expect(other).not.toBe(base)
  })
})

describe('the key of the sandbox image', () => {
  const key = sandboxKey(base, { node: '111:a', 'sidecar.mjs': '444:b' }, 'USER 1000')

  it('changes with the root file system, a program, a mode or a setting', () => {
    const others = [
      sandboxKey(baseKey(recipe, ['jq'], 'x64'), { node: '111:a', 'sidecar.mjs': '444:b' }, 'USER 1000'),
      sandboxKey(base, { node: '111:a', 'sidecar.mjs': '444:c' }, 'USER 1000'),
      sandboxKey(base, { node: '555:a', 'sidecar.mjs': '444:b' }, 'USER 1000'),
      sandboxKey(base, { node: '111:a', 'sidecar.mjs': '444:b' }, 'USER 0'),
    ]
    expect(new Set([key, ...others]).size).toBe(5)
  })
})

it('the key of a layer changes with the harness and with any layer below it', () => {
  const one = harnessKey(base, 'codex-1.0.0-0123456789ab')
  const others = [
    harnessKey(base, 'codex-1.0.0-ba9876543210'),
    harnessKey(one, 'codex-1.0.0-0123456789ab'),
    harnessKey(baseKey(recipe, ['jq'], 'x64'), 'codex-1.0.0-0123456789ab'),
  ]
  expect(new Set([base, one, ...others]).size).toBe(5)
  expect(harnessKey(base, 'codex-1.0.0-0123456789ab')).toBe(one)
})

describe('the recipe', () => {
  it('contains what agents and the tests of every sandbox need', () => {
    expect(allPackages(recipe, [])).toEqual(
      expect.arrayContaining(['ca-certificates', 'git', 'procps', 'python3', 'tini', 'vim-tiny']),
    )
  })
})
