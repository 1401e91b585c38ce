import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  applyEdits,
  insertMember,
  type LookInto,
  type Members,
  parseAnswer,
  scanObject,
  TooComplex,
  VALUES_MAX,
  valueAt,
} from './json-members.ts'

const scan = (text: string | Buffer, lookInto?: LookInto) => scanObject(Buffer.from(text), lookInto)
const findMembers = (text: string | Buffer, lookInto?: LookInto) => {
  const members = scan(text, lookInto)
  if (typeof members === 'string') throw new Error(`not taken: ${members}`)
  return members
}

const object = fc.dictionary(
  fc.string({ maxLength: 20, unit: 'binary' }).filter((name) => name !== '__proto__'),
  fc.jsonValue(),
  { maxKeys: 12 },
)
const spaced = fc.tuple(object, fc.constantFrom(undefined, 1, '\t', ' \r\n '))

/**
 * `JSON.parse` is the reference. The scanner reports an invalid text as `syntax`, and a text that is not an object as
 * `not_object`.
 */
function agrees(bytes: Buffer): void {
  const verdict = scanObject(bytes)
  let parsed: unknown
  try {
    parsed = JSON.parse(bytes.toString('utf8'))
  } catch {
    expect(verdict).toBe('syntax')
    return
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) {
    expect(verdict).toBe('not_object')
    return
  }
  if (verdict === 'duplicate') return
  const { spans } = verdict as Members
  expect([...spans.keys()].sort()).toEqual(Object.keys(parsed).sort())
  for (const [name, { start, end }] of spans)
    expect(JSON.parse(bytes.toString('utf8', start, end))).toEqual((parsed as Record<string, unknown>)[name])
}

describe('compared with JSON.parse', () => {
  it('finds each member of any object, with any whitespace', () => {
    fc.assert(
      fc.property(spaced, ([value, space]) => {
        const bytes = Buffer.from(JSON.stringify(value, null, space))
        expect(scanObject(bytes)).not.toBe('duplicate')
        agrees(bytes)
      }),
    )
  })

  it('agrees on texts assembled from pieces of JSON', () => {
    const piece = fc.constantFrom(
      '{',
      '}',
      '[',
      ']',
      ',',
      ':',
      '"a"',
      '"b\\""',
      '"\\u0061"',
      '"\\ud800"',
      '"\\x"',
      '"\\u00g0"',
      '"\t"',
      '"',
      '1',
      '-',
      '0',
      '.',
      'e',
      'E+',
      '-0.5e3',
      '1e999',
      '01',
      'true',
      'nul',
      'null',
      'false',
      'NaN',
      ' ',
      '\n',
      '\v',
      '\u00a0',
      '\ufeff',
      '/',
      "'",
      '\\',
      '\u0000',
      '\u2028',
    )
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 14 }), fc.boolean(), (pieces, isWrapped) => {
        const text = pieces.join('')
        agrees(Buffer.from(isWrapped ? `{"a":${text}}` : text))
      }),
      { numRuns: 8_000 },
    )
  })

  it('agrees on JSON with one byte changed, added or removed', () => {
    const change = fc.tuple(
      fc.nat(),
      fc.constantFrom('change', 'add', 'cut'),
      fc.integer({ min: 0, max: 0x7f }),
    )
    fc.assert(
      fc.property(spaced, change, ([value, space], [position, how, byte]) => {
        const bytes = Buffer.from(JSON.stringify({ ...value, a: [1, -0.5e-7, { b: null }] }, null, space))
        const at = position % bytes.length
        const added = how === 'cut' ? [] : [byte]
        const after = bytes.subarray(how === 'add' ? at : at + 1)
        const changed = Buffer.concat([bytes.subarray(0, at), Buffer.from(added), after])
        // The callers of the scanner pass only valid UTF-8, so other bytes are not tested.
        if (changed.equals(Buffer.from(changed.toString('utf8')))) agrees(changed)
      }),
      { numRuns: 1_500 },
    )
  })
})

/** Every third text is held out: it was not consulted while the scanner was written. */
const CORPUS: readonly (readonly [text: string | Buffer, verdict: string])[] = [
  ['{}', 'taken'],
  ['{"a":1}', 'taken'],
  [' \t\r\n{"a" : 1 , "b":[ ] }\n', 'taken'],
  ['{"a":1,}', 'syntax'],
  ['{"a":1 "b":2}', 'syntax'],
  ['{,"a":1}', 'syntax'],
  ['{"a":1,"a":2}', 'duplicate'],
  ['{"model":1,"mod\\u0065l":2}', 'duplicate'],
  ['{"a\\/b":1,"a/b":2}', 'duplicate'],
  ['{"a":1}{"a":2}', 'syntax'],
  ['{"a":1} x', 'syntax'],
  ['{"a":1}\0', 'syntax'],
  ['\ufeff{"a":1}', 'syntax'],
  ['\u00a0{"a":1}', 'syntax'],
  ['{"a":1}\ufeff', 'syntax'],
  ['', 'syntax'],
  [' ', 'syntax'],
  ['{', 'syntax'],
  ['[{"a":1}]', 'not_object'],
  ['"{}"', 'not_object'],
  ['-0', 'not_object'],
  ['{"a":1e999}', 'taken'],
  ['{"a":-0}', 'taken'],
  ['{"a":-1E+2,"b":0.0e-0}', 'taken'],
  ['{"a":01}', 'syntax'],
  ['{"a":+1}', 'syntax'],
  ['{"a":-01}', 'syntax'],
  ['{"a":.5}', 'syntax'],
  ['{"a":5.}', 'syntax'],
  ['{"a":1e}', 'syntax'],
  ['{"a":-}', 'syntax'],
  ['{"a":0x10}', 'syntax'],
  ['{"a":1_000}', 'syntax'],
  ['{"a":NaN}', 'syntax'],
  ['{"a":Infinity}', 'syntax'],
  ['{"a":undefined}', 'syntax'],
  ['{"a":True}', 'syntax'],
  ['{"a":tru}', 'syntax'],
  ['{"a":nulll}', 'syntax'],
  ['{"a":"\\ud800"}', 'taken'],
  ['{"\\ud800":1,"\\ud801":2}', 'taken'],
  ['{"\\udc00\\ud800":1}', 'taken'],
  ['{"a":"\\u12"}', 'syntax'],
  ['{"a":"\\U0041"}', 'syntax'],
  ['{"a":"\\u004G"}', 'syntax'],
  ['{"a":"\\x41"}', 'syntax'],
  ['{"a":"\\\n"}', 'syntax'],
  ['{"a":"\\\'"}', 'syntax'],
  ['{"a":"line\nbreak"}', 'syntax'],
  ['{"a":"\u0000"}', 'syntax'],
  ['{"a":"\u001f"}', 'syntax'],
  ['{"a":"\u007f\u2028\u2029"}', 'taken'],
  ['{"a":"b', 'syntax'],
  ['{"a":"\\', 'syntax'],
  ['{"a":"\\\\"}', 'taken'],
  ['{"a":"\\\\\\""}', 'taken'],
  ['{"a":"\\\\""}', 'syntax'],
  ['{"":1}', 'taken'],
  ['{"__proto__":1,"constructor":2}', 'taken'],
  ['{"__proto__":1,"__proto__":2}', 'duplicate'],
  ['{a:1}', 'syntax'],
  ["{'a':1}", 'syntax'],
  ['{1:1}', 'syntax'],
  ['{"a"}', 'syntax'],
  ['{"a":}', 'syntax'],
  ['{"a"::1}', 'syntax'],
  ['{"a":1/* "a":2 */}', 'syntax'],
  ['{"a":1}//', 'syntax'],
  ['{"a":1;"b":2}', 'syntax'],
  ['{"a":[1,]}', 'syntax'],
  ['{"a":[,1]}', 'syntax'],
  ['{"a":[1 2]}', 'syntax'],
  ['{"a":[1}', 'syntax'],
  ['{"a":{"b":1]}', 'syntax'],
  ['{"a":{"b":1}', 'syntax'],
  ['{"a":[[[[]]]],"b":{"c":{"d":{}}}}', 'taken'],
  ['{"a":{"b":1,"b":2}}', 'taken'],
  ['{"a":{"b"}}', 'syntax'],
  [`{"a":${'['.repeat(200)}${']'.repeat(200)}}`, 'taken'],
  [`{"a":${'['.repeat(202)}${']'.repeat(202)}}`, 'too_deep'],
  [`{"a":${'{"a":'.repeat(1000)}1${'}'.repeat(1000)}}`, 'too_deep'],
  [`{"${'k'.repeat(198)}":1}`, 'taken'],
  [`{"${'k'.repeat(199)}":1}`, 'long_name'],
  [`{"${'\\u0061'.repeat(40)}":1}`, 'long_name'],
  [`{${Array.from({ length: 1001 }, (_, at) => `"${at}":0`).join()}}`, 'too_many_members'],
  [`{"a":[${'1,'.repeat(VALUES_MAX)}1]}`, 'too_many_values'],
  [`{"a":[${'[],'.repeat(VALUES_MAX)}1]}`, 'too_many_values'],
]

const verdictOn = (text: string | Buffer) => {
  const verdict = scan(text)
  return typeof verdict === 'string' ? verdict : 'taken'
}

const listCorpus = (isAside: boolean) =>
  CORPUS.filter((_, at) => (at % 3 === 2) === isAside).map(
    ([text, verdict]) => [JSON.stringify(text).slice(0, 60), text, verdict] as const,
  )

it.each(listCorpus(false))('reads %s', (_, text, verdict) => {
  expect(verdictOn(text)).toBe(verdict)
})

it.each(listCorpus(true))('held out: reads %s', (_, text, verdict) => {
  expect(verdictOn(text)).toBe(verdict)
})

it('changes one value and no other byte', () => {
  fc.assert(
    fc.property(spaced, fc.nat(), ([value, space], cap) => {
      const body = Buffer.from(JSON.stringify({ ...value, cap: 'old' }, null, space))
      const span = findMembers(body).spans.get('cap')!
      const changed = applyEdits(body, [{ ...span, text: String(cap) }])
      expect(changed.toString()).toBe(
        body.toString('utf8', 0, span.start) + String(cap) + body.toString('utf8', span.end),
      )
      expect(JSON.parse(changed.toString())).toEqual({ ...JSON.parse(body.toString()), cap })
    }),
  )
})

it('inserts a member at the front', () => {
  fc.assert(
    fc.property(object, (value) => {
      const body = Buffer.from(JSON.stringify(value))
      const changed = applyEdits(body, [insertMember(findMembers(body), 'new member', '7')])
      expect(JSON.parse(changed.toString())).toEqual({ 'new member': 7, ...JSON.parse(body.toString()) })
    }),
  )
})

it('reads the values of the objects that the caller names', () => {
  const body = Buffer.from(
    '{"request": {"generationConfig": {"maxOutputTokens" : 12 }, "other": {"a":1}}, "list": []}',
  )
  const { objects } = findMembers(body, { request: { generationConfig: {} }, list: {} })
  expect([...objects.keys()]).toEqual(['request'])
  const request = objects.get('request')!
  expect([...request.objects.keys()]).toEqual(['generationConfig'])
  const { spans } = request.objects.get('generationConfig')!
  expect(valueAt(body, spans.get('maxOutputTokens')!)).toBe(12)
})

it('refuses a duplicate member in an object that it reads', () => {
  expect(scan('{"a":{"b":1,"\\u0062":2}}', { a: {} })).toBe('duplicate')
})

const READ = ['usage', 'type', 'content', 'choices', 'error']
/** JSON with members that readers use and members that they ignore. */
const answers = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    fc.oneof(fc.integer(), fc.double({ noNaN: true, noDefaultInfinity: true }), fc.string(), fc.boolean()),
    fc.constant(null),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(fc.oneof(fc.constantFrom(...READ), fc.string()), tie('value'), { maxKeys: 4 }),
  ),
})).value

function asRead(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(asRead)
  if (typeof value !== 'object' || value === null) return value
  const read = Object.entries(value).filter(([name]) => READ.includes(name))
  return Object.fromEntries(read.map(([name, each]) => [name, asRead(each)]))
}

it('parses a response like JSON.parse, without the unused members', () => {
  fc.assert(
    fc.property(answers, fc.constantFrom(undefined, 1), (value, indent) => {
      const text = JSON.stringify(value, null, indent)
      expect(parseAnswer(text)).toEqual(asRead(JSON.parse(text)))
      expect(parseAnswer(Buffer.from(text))).toEqual(parseAnswer(text))
    }),
  )
})

it('rejects the same responses as JSON.parse', () => {
  fc.assert(
    fc.property(answers, fc.nat(), fc.string({ maxLength: 1 }), (value, at, put) => {
      const text = JSON.stringify(value)
      const broken = text.slice(0, at % text.length) + put + text.slice((at % text.length) + 1)
      let isJson = true
      try {
        JSON.parse(broken)
      } catch {
        isJson = false
      }
      if (isJson) parseAnswer(broken)
      else expect(() => parseAnswer(broken)).toThrow(SyntaxError)
    }),
  )
})

it('skips unused members, however many, and refuses a response with too many values or levels', () => {
  const names = Array.from({ length: 100_000 }, (_, at) => `"k${at}":1`).join(',')
  expect(parseAnswer(`{"usage":{"input_tokens":1},"x":{${names}},${names}}`)).toEqual({
    usage: { input_tokens: 1 },
  })
  expect(() => parseAnswer(`{"content":[${'1,'.repeat(300_000)}1]}`)).toThrow(TooComplex)
  expect(() => parseAnswer(`{"x":[${'1,'.repeat(1_000_000)}1]}`)).toThrow(TooComplex)
  expect(() => parseAnswer(`${'['.repeat(500)}${']'.repeat(500)}`)).toThrow(TooComplex)
})

it('keeps a function call as text, because only its length counts', () => {
  const parts = '[{"functionCall":{"name":"f","args":{"a":1}}}]'
  expect(parseAnswer(`{"parts":${parts}}`)).toEqual({
    parts: [{ functionCall: '{"name":"f","args":{"a":1}}' }],
  })
})
