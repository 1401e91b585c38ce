import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { canonicalJson, type Json } from './canonical-json.ts'

const vectors = resolve(import.meta.dirname, '../../../shared/vectors/jcs')

describe.skipIf(!existsSync(vectors))('RFC 8785 published vectors (need ../shared)', () => {
  it.each(existsSync(vectors) ? readdirSync(`${vectors}/input`) : [])(
    'produces the published bytes for %s',
    (name) => {
      const input = JSON.parse(readFileSync(`${vectors}/input/${name}`, 'utf8')) as Json
      expect(canonicalJson(input)).toBe(readFileSync(`${vectors}/output/${name}`, 'utf8').trim())
    },
  )
})

describe('canonical JSON', () => {
  it('sorts keys by UTF-16 code units, at every depth, and omits undefined members', () => {
    expect(canonicalJson({ b: [{ z: 1, a: undefined, y: null }], é: 1, a: 'x' })).toBe(
      '{"a":"x","b":[{"y":null,"z":1}],"é":1}',
    )
  })

  it('formats numbers as ECMAScript does', () => {
    expect(canonicalJson([1e21, 1e-7, -0, 0.1, 1 / 3])).toBe('[1e+21,1e-7,0,0.1,0.3333333333333333]')
  })

  it.each([[Number.NaN], [Number.POSITIVE_INFINITY], ['\ud800'], [{ '\udfff': 1 }], [10n], [() => 1]])(
    'refuses what JSON cannot represent',
    (value) => {
      expect(() => canonicalJson(value as never)).toThrow(TypeError)
    },
  )

  it('produces the same text for the same value, whatever the order of its keys', () => {
    const value = fc.jsonValue({ maxDepth: 4 }).filter((json) => JSON.stringify(json).isWellFormed())
    fc.assert(
      fc.property(value, (json) => {
        const text = canonicalJson(json as Json)
        expect(canonicalJson(reverseKeys(json as Json))).toBe(text)
        expect(canonicalJson(JSON.parse(text) as Json)).toBe(text)
      }),
    )
  })
})

function reverseKeys(value: Json): Json {
  if (Array.isArray(value)) return value.map(reverseKeys)
  if (value === null || typeof value !== 'object') return value
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([key, item]) => [key, reverseKeys(item as Json)]),
  )
}
