import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parsePackages } from './packages.ts'

describe('names of packages', () => {
  it('are sorted and unique, so that their order does not change the image', () => {
    expect(parsePackages('ripgrep, jq,jq')).toEqual(['jq', 'ripgrep'])
    expect(parsePackages('libstdc++6,python3.11')).toEqual(['libstdc++6', 'python3.11'])
  })

  it.each([
    '',
    'jq,',
    ',jq',
    'JQ',
    'j',
    'jq=1.6',
    'jq/bookworm',
    'jq:amd64',
    'jq ripgrep',
    '-jq',
    '--option',
    '+x',
    'jq;id',
    '$(id)',
    '`id`',
    'jq\nid',
    'jq\0',
    './jq.deb',
    '?name(jq)',
    '~njq',
    "jq'",
    'jq"',
    'a'.repeat(101),
  ])('are refused when they are invalid: %j', (text) => {
    expect(() => parsePackages(text)).toThrow(expect.objectContaining({ code: 'usage' }))
  })

  it('contain nothing that a shell, a Dockerfile, apt or mmdebstrap reads as more than a name', () => {
    const unit = fc.constantFrom(...'abz19+.-,, ;$`"\'\\\n=/:~?[{')
    fc.assert(
      fc.property(fc.string({ unit, maxLength: 12 }), (text) => {
        const names = tryParsePackages(text)
        return names.every((name) => /^[a-z0-9][a-z0-9+.-]+$/.test(name))
      }),
    )
  })

  it('are limited in number', () => {
    const many = Array.from({ length: 101 }, (_, i) => `package${i}`).join(',')
    expect(() => parsePackages(many)).toThrow(/too many/)
  })
})

/** Returns an empty list when the names are refused with a usage error. */
function tryParsePackages(text: string): readonly string[] {
  try {
    return parsePackages(text)
  } catch (error) {
    if ((error as { code?: string }).code === 'usage') return []
    throw error
  }
}
