import fc from 'fast-check'
import { expect, it } from 'vitest'
import { edited, memberPutIn, objectAt, valueAt, wholeObject } from './json-members.ts'

const object = fc.dictionary(
  fc.string({ maxLength: 20 }).filter((name) => name !== '__proto__'),
  fc.jsonValue(),
)
const spaced = fc.tuple(object, fc.constantFrom(undefined, 1, '\t', ' \r\n '))

it('finds each member of any object, however it is spelled', () => {
  fc.assert(
    fc.property(spaced, ([value, space]) => {
      const body = Buffer.from(JSON.stringify(value, null, space))
      const found = wholeObject(body)
      const parsed = JSON.parse(body.toString()) as Record<string, unknown>
      expect([...(found?.spans.keys() ?? [])].sort()).toEqual(Object.keys(parsed).sort())
      for (const [name, { start, end }] of found!.spans)
        expect(JSON.parse(body.toString('utf8', start, end))).toEqual(parsed[name])
    }),
  )
})

it('changes one value and no other byte', () => {
  fc.assert(
    fc.property(spaced, fc.nat(), ([value, space], cap) => {
      const body = Buffer.from(JSON.stringify({ ...value, cap: 'old' }, null, space))
      const members = wholeObject(body)!
      const span = members.spans.get('cap')!
      const changed = edited(body, [{ ...span, text: String(cap) }])
      expect(changed.toString()).toBe(
        body.toString('utf8', 0, span.start) + String(cap) + body.toString('utf8', span.end),
      )
      expect(JSON.parse(changed.toString())).toEqual({ ...JSON.parse(body.toString()), cap })
    }),
  )
})

it('puts a member in front', () => {
  fc.assert(
    fc.property(object, (value) => {
      const body = Buffer.from(JSON.stringify(value))
      const changed = edited(body, [memberPutIn(wholeObject(body)!, 'cap of mine', '7')])
      expect(JSON.parse(changed.toString())).toEqual({ 'cap of mine': 7, ...JSON.parse(body.toString()) })
    }),
  )
})

it('says yes to nothing that a JSON parser says no to, but for what stands within strings', () => {
  const piece = fc.constantFrom(
    '{',
    '}',
    '[',
    ']',
    ',',
    ':',
    '"a"',
    '"b\\""',
    '1',
    '-0.5e3',
    '01',
    'true',
    'nul',
    ' ',
    '/',
    "'",
  )
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 14 }), (pieces) => {
      const text = `{${pieces.join('')}}`
      if (wholeObject(Buffer.from(text)) !== undefined) expect(() => JSON.parse(text)).not.toThrow()
    }),
    { numRuns: 5000 },
  )
})

it.each([
  ['a name that is there twice', '{"a":1,"a":2}'],
  ['the same name in two spellings', '{"a":1,"\\u0061":2}'],
  ['what follows the object', '{"a":1} {}'],
  ['an array', '[{"a":1}]'],
  ['half of it', '{"a":{"b":1}'],
  ['an open string', '{"a":"b'],
  ['nothing', ''],
  ['a comment', '{"a":1/* "a":2 */}'],
  ['a depth that nobody means', `{"a":${'['.repeat(1000)}${']'.repeat(1000)}}`],
])('refuses %s', (_, text) => {
  expect(wholeObject(Buffer.from(text))).toBeUndefined()
})

it('looks into an object within, and reads short values', () => {
  const body = Buffer.from('{"request": {"generationConfig": {"maxOutputTokens" : 12 }}}')
  const request = objectAt(body, wholeObject(body)!.spans.get('request')!)!
  const config = objectAt(body, request.spans.get('generationConfig')!)!
  expect(valueAt(body, config.spans.get('maxOutputTokens')!)).toBe(12)
  expect(objectAt(body, config.spans.get('maxOutputTokens')!)).toBeUndefined()
})
