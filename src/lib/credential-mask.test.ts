import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { CredentialMask } from './credential-mask.ts'

const SECRET = 'sk-made-up-Zx8Qv2Lm5Tn7/Rw+4c9'
const base64 = (offset: number) => (secret: string) =>
  Buffer.from(`${'~'.repeat(offset)}${secret}and more`, 'latin1').toString('base64')
const base64url = (offset: number) => (secret: string) =>
  Buffer.from(`${'~'.repeat(offset)}${secret}`, 'latin1').toString('base64url')

const ENCODINGS: Readonly<Record<string, (secret: string) => string>> = {
  raw: (secret) => secret,
  'lower case': (secret) => secret.toLowerCase(),
  'upper case': (secret) => secret.toUpperCase(),
  'url-encoded': (secret) => encodeURIComponent(secret),
  'url-encoded in lower case': (secret) =>
    encodeURIComponent(secret).replace(/%../g, (each) => each.toLowerCase()),
  'JSON-escaped': (secret) => JSON.stringify(secret).slice(1, -1),
  'JSON-escaped with slashes': (secret) => JSON.stringify(secret).slice(1, -1).replaceAll('/', '\\/'),
  'JSON within JSON': (secret) => JSON.stringify(JSON.stringify(secret)).slice(3, -3),
  'base64 at offset 0': base64(0),
  'base64 at offset 1': base64(1),
  'base64 at offset 2': base64(2),
  'base64url at offset 0': base64url(0),
  'base64url at offset 1': base64url(1),
  'base64url at offset 2': base64url(2),
  'lower-case hex': (secret) => Buffer.from(secret, 'latin1').toString('hex'),
  'upper-case hex': (secret) => Buffer.from(secret, 'latin1').toString('hex').toUpperCase(),
  'UTF-16': (secret) => Buffer.from(secret, 'utf16le').toString('latin1'),
  'big-endian UTF-16': (secret) => Buffer.from(secret, 'utf16le').swap16().toString('latin1'),
}
const encodings = Object.entries(ENCODINGS)
/** Random enough that no other text contains them by chance. */
const secrets = fc.stringMatching(/^[!-~]{16,60}$/).filter((secret) => new Set(secret).size > 10)
const latin1 = (text: string) => Buffer.from(text, 'latin1')

function cut(bytes: Buffer, sizes: readonly number[]): Buffer[] {
  const pieces: Buffer[] = []
  for (let at = 0, i = 0; at < bytes.length; i++) {
    const size = sizes[i % sizes.length]!
    pieces.push(bytes.subarray(at, at + size))
    at += size
  }
  return pieces
}
const sizes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1 })

function maskPieces(mask: CredentialMask, pieces: readonly Buffer[]): Buffer {
  const stream = mask.stream()
  return Buffer.concat([...pieces.map((piece) => stream.feed(piece)), stream.flush()])
}

describe.each(encodings)('%s', (_, encode) => {
  it('is masked when the credential is complete, with as many bytes', () => {
    fc.assert(
      fc.property(secrets, fc.string(), (secret, around) => {
        const bytes = Buffer.concat([Buffer.from(`${around} `), latin1(encode(secret)), Buffer.from(' end')])
        const masked = new CredentialMask([secret]).maskBytes(bytes)
        expect(masked).toHaveLength(bytes.length)
        expect(new CredentialMask([secret]).maskBytes(masked)).toBe(masked)
        expect(masked.equals(bytes)).toBe(false)
        expect(masked.toString('latin1')).not.toContain(encode(secret))
      }),
    )
  })

  it('is not masked when a character is missing at either end', () => {
    const mask = new CredentialMask([SECRET])
    for (let length = 1; length < SECRET.length; length++)
      for (const part of [SECRET.slice(0, length), SECRET.slice(-length)]) {
        const bytes = latin1(` ${encode(part)} `)
        expect(mask.maskBytes(bytes)).toBe(bytes)
      }
  })

  it('is masked the same way however the text is split into pieces', () => {
    fc.assert(
      fc.property(sizes, fc.string(), (lengths, around) => {
        const mask = new CredentialMask([SECRET])
        const bytes = Buffer.concat([Buffer.from(around), latin1(encode(SECRET)), Buffer.from(around)])
        expect(maskPieces(mask, cut(bytes, lengths)).equals(mask.maskBytes(bytes))).toBe(true)
      }),
    )
  })
})

it('masks long text the same way in several turns of the event loop, also a credential that spans two parts', async () => {
  const mask = new CredentialMask([SECRET])
  const filler = Buffer.alloc(256 * 1024, 'text-without-a-blank')
  for (let before = 0; before <= SECRET.length; before += 5) {
    const bytes = Buffer.concat([filler.subarray(before), latin1(SECRET), filler, filler])
    const masked = await mask.maskInTurns(bytes)
    expect(masked.equals(mask.maskBytes(bytes))).toBe(true)
    expect(masked.includes(SECRET)).toBe(false)
  }
})

it('masks each of two credentials, wherever they are', () => {
  const [one, other] = [SECRET, 'gho_anotherTokenOfAnyLength']
  const masked = new CredentialMask([one, other]).maskText(`${one}${other} ${other}`)
  expect(masked).toBe(`${'x'.repeat(one.length + other.length)} ${'x'.repeat(other.length)}`)
})

it('masks the base64 characters that a credential shares with the surrounding text', () => {
  const secret = 'a'.repeat(8) + SECRET
  for (const offset of [0, 1, 2]) {
    const text = Buffer.from(`${'~'.repeat(offset)}${secret}`)
      .toString('base64')
      .replace(/=+$/, '')
    const own = Math.ceil(((offset + secret.length) * 4) / 3) - Math.floor((offset * 4) / 3)
    expect(new CredentialMask([secret]).maskText(` ${text} `)).toBe(
      ` ${text.slice(0, -own)}${'x'.repeat(own)} `,
    )
  }
})

it('leaves text without a credential unchanged, however it is split', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 500 }), sizes, (content, lengths) => {
      const bytes = Buffer.from(content)
      for (const mask of [new CredentialMask([SECRET]), new CredentialMask([undefined])])
        expect(maskPieces(mask, cut(bytes, lengths)).equals(bytes)).toBe(true)
    }),
  )
})

it('holds back the same text for every credential of a length', () => {
  fc.assert(
    fc.property(
      secrets,
      fc.nat(),
      fc.array(fc.string({ maxLength: 80 }), { maxLength: 10 }),
      (secret, part, texts) => {
        const other = [...secret].reverse().join('')
        const streams = [secret, other].map((each) => new CredentialMask([each]).stream())
        for (const text of [...texts, secret.slice(0, part % secret.length), ...texts]) {
          const [one, two] = streams.map((stream) => stream.feedText(text))
          expect(one).toBe(two)
        }
      },
    ),
  )
})

it('passes each complete word on at once, and only whole characters', () => {
  const stream = new CredentialMask([SECRET]).stream()
  expect(stream.feedText('one two')).toBe('one ')
  expect(stream.feedText(' three\n')).toBe('two three\n')
  expect(stream.feedText('data: {"a":1}\n\n')).toBe('data: {"a":1}\n\n')
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', maxLength: 60 }), (text) => {
      const cutText = new CredentialMask([SECRET]).stream()
      const passed = [...[...text].map((each) => cutText.feedText(each)), cutText.flush().toString()]
      expect(passed.every((piece) => piece.isWellFormed())).toBe(true)
      expect(passed.join('')).toBe(text)
    }),
  )
})

it('leaves JSON valid, with the same members', () => {
  const texts = fc.constantFrom('', '\\', '"', '\n', '\u0001', 'key: ', '\\u00', '/', '4', 'é')
  fc.assert(
    fc.property(secrets, texts, texts, fc.boolean(), (secret, before, after, isTwice) => {
      const value = { a: before + secret + after, [secret]: [1, before + secret, true], b: null }
      const json = JSON.stringify(isTwice ? { inner: JSON.stringify(value) } : value)
      const masked = JSON.parse(new CredentialMask([secret]).maskText(json))
      const inner = isTwice ? JSON.parse(masked.inner) : masked
      expect(Object.values(inner)).toHaveLength(3)
      expect(JSON.stringify(inner.a)).not.toContain(JSON.stringify(secret).slice(1, -1))
    }),
  )
})

it.each([
  [
    'an escape sequence',
    'nope-credential-of-some-length',
    String.raw`{"a":"\nope-credential-of-some-length"}`,
  ],
  ['a Unicode escape', '41-credential-of-some-length', String.raw`{"a":"\u0041-credential-of-some-length"}`],
  ['a number', '1234567890123456789', '{"a":-12345678901234567890.5}'],
  [
    'a backslash at its end',
    'credential-of-some-length\\',
    JSON.stringify({ a: 'credential-of-some-length\\' }),
  ],
  ['members of an object', 'credential":"of-some-length', '{"credential":"of-some-length"}'],
])('leaves JSON valid when the credential overlaps %s', (_, secret, json) => {
  const masked = new CredentialMask([secret]).maskText(json)
  expect(masked).not.toBe(json)
  JSON.parse(masked)
})

it('does not mask a value that is short enough to be guessed completely', () => {
  expect(new CredentialMask(['fifteen-letters']).maskText('fifteen-letters')).toBe('fifteen-letters')
  expect(new CredentialMask(['sixteen--letters']).maskText('sixteen--letters')).toBe('x'.repeat(16))
})
