import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { CONTEXTS, MUST_KEEP, MUST_MASK, TOKENS } from './corpus.fixture.ts'
import { createRedactStream, redactText, redactValue } from './redact.ts'

/** An invented value for positions where the name announces the secret. */
const password = fc
  .tuple(fc.stringMatching(/^[A-Za-z][A-Za-z0-9]{6,20}$/), fc.stringMatching(/^[0-9]{2}$/))
  .map((parts) => parts.join(''))

const planted = fc.oneof(
  fc.constantFrom(...Object.values(TOKENS)).map((secret) => ({ secret, text: secret })),
  fc
    .tuple(fc.constantFrom(...Object.values(CONTEXTS)), password)
    .map(([template, secret]) => ({ secret, text: template.replaceAll('«»', secret) })),
)

const prose = fc.oneof(
  fc.lorem({ maxCount: 12 }),
  fc.constantFrom(...MUST_KEEP.filter((text) => !text.includes('BEGIN'))),
  fc.constantFrom('', '(', ' - ', '\n', '{"a":1,', 'é😀', '::', '\\n', '"', "it's "),
)

/** Fragments that combine badly: halves of keys, separators, quotes, labels. */
const shards = fc
  .array(
    fc.oneof(
      fc.constantFrom(
        ...'= : " \' \\ , ; & @ / // :// [ ] { } ( ) < > | % ` ** \n \t \r\n $ - -- ...'.split(' '),
      ),
      fc.constantFrom(
        ' ',
        '[REDACTED]',
        'password',
        'token',
        'Authorization',
        'Bearer',
        'Cookie',
        'secret',
        'is',
        'auth',
      ),
      fc.constantFrom(
        'https',
        'user',
        'curl -u ',
        'docker login -p ',
        'mysql -p',
        'read_token',
        'use_password',
        'pass',
        '\u001b[1m',
        '\0',
        "''",
        '%3D',
        '\\"',
        '\\n',
        'login ',
        'name',
        'value',
        'api',
        'key',
        'null',
      ),
      fc.constantFrom(...Object.values(TOKENS)),
      fc.string({ maxLength: 6 }),
      password,
    ),
    { maxLength: 24 },
  )
  .map((parts) => parts.join(''))

describe('a planted secret', () => {
  it('never survives in text', () => {
    fc.assert(
      fc.property(prose, planted, prose, (before, { secret, text }, after) => {
        expect(redactText(`${before}\n${text}\n${after}`).text).not.toContain(secret)
      }),
      { numRuns: 2000 },
    )
  })

  it('never survives in a nested value or its paths', () => {
    fc.assert(
      fc.property(
        planted,
        fc.array(fc.constantFrom('a', 'list', 'b c', 'output'), { maxLength: 6 }),
        (plant, keys) => {
          const value = keys.reduce<unknown>(
            (inner, key) => (key === 'list' ? ['x', inner] : { [key]: inner }),
            plant.text,
          )
          const result = redactValue(value)
          expect(JSON.stringify(result)).not.toContain(JSON.stringify(plant.secret).slice(1, -1))
          expect(result.redacted).toBe(true)
        },
      ),
      { numRuns: 500 },
    )
  })

  it('never survives in a stream with any chunks, and the result equals that of the whole text', () => {
    fc.assert(
      fc.property(
        prose,
        planted,
        prose,
        fc.array(fc.nat(400), { maxLength: 12 }),
        (before, plant, after, cuts) => {
          const text = `${before}\n${plant.text}\n${after}`
          const out = inPieces(text, cuts)
          expect(out).not.toContain(plant.secret)
          expect(out).toBe(redactText(text).text)
        },
      ),
      { numRuns: 2000 },
    )
  })
})

describe('redacting again', () => {
  it('changes nothing in text', () => {
    fc.assert(
      fc.property(fc.oneof(shards, fc.constantFrom(...MUST_MASK.map(({ text }) => text))), (text) => {
        const once = redactText(text).text
        expect(redactText(once)).toEqual({ text: once, labels: [] })
      }),
      { numRuns: 5000 },
    )
  })

  it('changes nothing in a value', () => {
    const keys = fc.oneof(fc.constantFrom('token', 'tokens', 'a', 'value', 'name', 'auth', '--token'), shards)
    fc.assert(
      fc.property(
        fc.letrec((tie) => ({
          node: fc.oneof(
            { depthSize: 'small' },
            shards,
            fc.integer(),
            fc.constant(null),
            tie('list'),
            tie('object'),
          ),
          list: fc.array(tie('node'), { maxLength: 4 }),
          object: fc.dictionary(keys, tie('node'), { maxKeys: 4 }),
        })).node,
        (value) => {
          const once = redactValue(value).value
          expect(redactValue(once)).toEqual({ value: once, redacted: false, paths: [], labels: [] })
        },
      ),
      { numRuns: 1000 },
    )
  })
})

describe('a stream of any text', () => {
  it('returns the same lines as the whole text', () => {
    fc.assert(
      fc.property(shards, shards, fc.array(fc.nat(300), { maxLength: 8 }), (first, second, cuts) => {
        const text = `${first}\n${second}`
        expect(inPieces(text, cuts)).toBe(redactText(text).text)
      }),
      { numRuns: 3000 },
    )
  })
})

describe('ids and counts', () => {
  const ulid = fc.stringMatching(/^[0-9A-HJKMNP-TV-Z]{26}$/)
  const hex = fc.constantFrom(8, 40, 64).chain((n) => fc.stringMatching(new RegExp(`^[0-9a-f]{${n}}$`)))
  const id = fc.oneof(
    fc.tuple(fc.constantFrom('rcpt', 'grant', 'run', 'task'), ulid).map((parts) => parts.join('_')),
    hex,
    hex.map((digest) => `sha256:${digest}`),
    fc.uuid(),
    fc.nat().map((n) => `max_tokens=${n}`),
    fc.nat().map((n) => `used ${n} tokens`),
    fc.nat(65_535).map((port) => `http://localhost:${port}/v1`),
  )

  it('always stay unchanged', () => {
    fc.assert(
      fc.property(fc.array(id, { minLength: 1, maxLength: 6 }), (ids) => {
        const text = ids.join(', ')
        expect(redactText(text).text).toBe(text)
        expect(redactValue({ ids }).redacted).toBe(false)
      }),
      { numRuns: 500 },
    )
  })
})

function inPieces(text: string, cuts: readonly number[]): string {
  const redact = createRedactStream()
  const points = [0, ...cuts.map((cut) => cut % (text.length + 1)), text.length].sort((a, b) => a - b)
  return (
    points.slice(1).reduce((out, to, n) => out + redact.write(text.slice(points[n], to)), '') + redact.end()
  )
}
