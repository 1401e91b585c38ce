import { describe, expect, it } from 'vitest'
import { baseDockerfile, labelChanges, labelInstruction, sandboxDockerfile } from './dockerfile.ts'
import { readRecipe } from './recipe.ts'

const labels = { kind: 'base', inputs: 'ab12', packages: ['jq', 'ripgrep'] } as const

describe('the Dockerfile of the root file system', () => {
  const text = baseDockerfile(readRecipe().dockerfile, ['git', 'libstdc++6'], labels)

  it('passes the packages to apt-get as arguments', () => {
    expect(text).toContain('"--no-install-recommends", "git", "libstdc++6"]\n')
    expect(text).not.toContain('@')
  })

  it('does not start a shell that reads them', () => {
    const runs = text.split('\n').filter((line) => line.startsWith('RUN'))
    expect(runs.length).toBeGreaterThan(0)
    for (const line of runs) expect(JSON.parse(line.slice('RUN '.length))).toBeInstanceOf(Array)
  })

  it('produces one layer, with its labels', () => {
    const lines = text.trim().split('\n')
    expect(lines.at(-3)).toBe('FROM scratch')
    expect(lines.at(-1)).toBe(labelInstruction(labels))
  })

  it('is refused unless it has exactly one placeholder for the packages', () => {
    expect(() => baseDockerfile('FROM scratch', [], labels)).toThrow(/exactly one placeholder/)
  })
})

describe('the Dockerfile of the sandbox image', () => {
  it('starts from an id, sets its labels first, and does not run as root', () => {
    const lines = sandboxDockerfile(`sha256:${'a'.repeat(64)}`, { ...labels, kind: 'sandbox' }).split('\n')
    expect(lines[0]).toBe(`FROM sha256:${'a'.repeat(64)}`)
    expect(lines[1]).toBe('LABEL craik.image="sandbox" craik.inputs="ab12" craik.packages="jq,ripgrep"')
    expect(lines).toContain('COPY craik /opt/craik')
    expect(lines).toContain('USER 1000:1000')
    expect(lines.some((line) => line.startsWith('RUN'))).toBe(false)
  })
})

it('sets imported labels one by one, because Podman reads several as one value', () => {
  expect(labelChanges(labels)).toEqual([
    'LABEL craik.image="base"',
    'LABEL craik.inputs="ab12"',
    'LABEL craik.packages="jq,ripgrep"',
  ])
})
