import { describe, expect, it } from 'vitest'
import { baseDockerfile, labelChanges, labelInstruction, sandboxDockerfile } from './dockerfile.ts'
import { readRecipe } from './recipe.ts'

const labels = { kind: 'base', inputs: 'ab12', packages: ['jq', 'ripgrep'] } as const

describe('the Dockerfile of the root file system', () => {
  const text = baseDockerfile(readRecipe().dockerfile, ['git', 'libstdc++6'], labels)

  it('names the packages as arguments of apt-get', () => {
    expect(text).toContain('"--no-install-recommends", "git", "libstdc++6"]\n')
    expect(text).not.toContain('@')
  })

  it('starts no shell that reads them', () => {
    const runs = text.split('\n').filter((line) => line.startsWith('RUN'))
    expect(runs.length).toBeGreaterThan(0)
    for (const line of runs) expect(JSON.parse(line.slice('RUN '.length))).toBeInstanceOf(Array)
  })

  it('ends in one layer, with its labels', () => {
    const lines = text.trim().split('\n')
    expect(lines.at(-3)).toBe('FROM scratch')
    expect(lines.at(-1)).toBe(labelInstruction(labels))
  })

  it('is refused when there is no one place for the packages', () => {
    expect(() => baseDockerfile('FROM scratch', [], labels)).toThrow(/exactly one placeholder/)
  })
})

describe('the Dockerfile of the image that sandboxes run', () => {
  it('begins with an id, says what it is before anything else, and does not run as root', () => {
    const lines = sandboxDockerfile(`sha256:${'a'.repeat(64)}`, { ...labels, kind: 'sandbox' }).split('\n')
    expect(lines[0]).toBe(`FROM sha256:${'a'.repeat(64)}`)
    expect(lines[1]).toBe('LABEL craik.image="sandbox" craik.inputs="ab12" craik.packages="jq,ripgrep"')
    expect(lines).toContain('COPY craik /opt/craik')
    expect(lines).toContain('USER 1000:1000')
    expect(lines.some((line) => line.startsWith('RUN'))).toBe(false)
  })
})

it('labels what is imported one by one, because Podman takes all that follows for the first', () => {
  expect(labelChanges(labels)).toEqual([
    'LABEL craik.image="base"',
    'LABEL craik.inputs="ab12"',
    'LABEL craik.packages="jq,ripgrep"',
  ])
})
