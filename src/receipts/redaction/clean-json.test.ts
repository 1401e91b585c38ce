import fc from 'fast-check'
import { expect, it } from 'vitest'
import { canonicalJson, type Json } from '../../lib/canonical-json.ts'
import { CleanJson } from './clean-json.ts'
import { CONTEXTS, MUST_MASK, TOKENS } from './corpus.fixture.ts'
import { redactValue } from './redact.ts'

const secret = fc.oneof(
  fc.constantFrom(...Object.values(TOKENS)),
  fc.constantFrom(...Object.values(CONTEXTS)).map((template) => template.replaceAll('«»', 'hunter2hunter2')),
)
const name = fc.oneof(
  fc.constantFrom(
    'id',
    'tokens',
    'input_tokens',
    'password',
    'api_key',
    'name',
    'value',
    'auth',
    'toJSON',
    'é',
  ),
  fc.string({ maxLength: 12 }),
  secret,
)
const leaf = fc.oneof(
  fc.constantFrom<unknown>(
    '-p',
    '--token',
    'mysql',
    'DB_PASSWORD',
    'x',
    '',
    'a:b',
    '\ud800',
    undefined,
    Infinity,
  ),
  fc.string({ maxLength: 30 }),
  fc.integer(),
  fc.double(),
  fc.boolean(),
  fc.constant(null),
  fc.date({ noInvalidDate: true }),
  secret,
)
const { value } = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    leaf,
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(name, tie('value'), { maxKeys: 5, noNullPrototype: true }),
  ),
}))

it('serializes exactly the values that redaction does not change, as canonical JSON', () => {
  const known = new CleanJson()
  let serialized = 0
  fc.assert(
    fc.property(value, (provided) => {
      const text = known.spell(provided)
      if (text === undefined) return
      serialized++
      expect(text).toBe(canonicalJson(provided as Json))
      expect(redactValue(provided).redacted).toBe(false)
      expect(known.spell(provided)).toBe(text)
    }),
    { numRuns: 3000 },
  )
  expect(serialized).toBeGreaterThan(300)
})

it('serializes no text that must be masked, at any position', () => {
  const known = new CleanJson()
  for (const { text } of MUST_MASK) {
    expect(known.spell(text), text).toBeUndefined()
    expect(known.spell({ a: [text] }), text).toBeUndefined()
    expect(known.spell({ [text]: 1 }), text).toBeUndefined()
  }
})

it('classifies a number by its name, and a name by its neighbours', () => {
  const known = new CleanJson()
  expect(known.spell({ input_tokens: 7, held_tokens: 0 })).toBe('{"held_tokens":0,"input_tokens":7}')
  expect(known.spell({ password: 7 })).toBeUndefined()
  expect(known.spell({ name: 'DB_PASSWORD', value: 7 })).toBeUndefined()
  expect(known.spell({ header: 'x-api-key', value: true })).toBeUndefined()
  expect(known.spell({ name: 'retries', value: 7 })).toBe('{"name":"retries","value":7}')
  expect(known.spell({ name: 'DB_PASSWORD', value: 7 })).toBeUndefined()
})

it('caches only values that are frozen throughout', () => {
  const known = new CleanJson()
  const inner = { n: 1 }
  const outer = Object.freeze({ inner })
  expect(known.spell(outer)).toBe('{"inner":{"n":1}}')
  inner.n = 2
  expect(known.spell(outer)).toBe('{"inner":{"n":2}}')
  Object.freeze(inner)
  expect(known.spell({ outer })).toBe('{"outer":{"inner":{"n":2}}}')
  expect(known.spell({ outer })).toBe('{"outer":{"inner":{"n":2}}}')
})

it('accepts only integers, booleans and references under references as metadata', () => {
  const known = new CleanJson()
  expect(known.spellFacts({ model: 'm', n: 1, ok: true, list: [null, 'a:b'] })).toBe(
    '{"list":[null,"a:b"],"model":"m","n":1,"ok":true}',
  )
  for (const other of [{ text: 'two words' }, { n: 1.5 }, { 'a b': 1 }, { command: 'x' }, { a: undefined }])
    expect(known.spellFacts(other), JSON.stringify(other)).toBeUndefined()
})
