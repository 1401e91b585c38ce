import { describe, expect, it } from 'vitest'
import { MUST_KEEP, MUST_MASK, PEM, TOKENS } from './corpus.fixture.ts'
import { createRedactStream, REDACTED_LABEL, redactText } from './redact.ts'

function stream(text: string, size: number): string {
  const redact = createRedactStream()
  let out = ''
  for (let at = 0; at < text.length; at += size) out += redact.write(text.slice(at, at + size))
  return out + redact.end()
}

describe('text in chunks', () => {
  // The lines above a lone end marker are already released when it arrives.
  const streamed = MUST_MASK.filter(({ name }) => name !== 'PEM block without its beginning')

  it.each(streamed)('masks $name at any chunk boundary', ({ text, secret }) => {
    for (const size of [1, 2, 3, 7, 64]) {
      const whole = `before\n${text}\nafter`
      const out = stream(whole, size)
      expect(out).not.toContain(secret)
      expect(out).toBe(redactText(whole).text)
    }
  })

  it.each(MUST_KEEP)('keeps %j at any chunk boundary', (text) => {
    for (const size of [1, 5]) expect(stream(`before\n${text}\nafter`, size)).toBe(`before\n${text}\nafter`)
  })

  it('releases a finished line at once and an unfinished one word by word', () => {
    const redact = createRedactStream()
    expect(redact.write('building 3 files\n')).toBe('building 3 files\n')
    expect(redact.write('step one of')).toBe('step one ')
    expect(redact.write(' two')).toBe('of ')
    expect(redact.end()).toBe('two')
  })

  it('holds a line back from its first suspicious word', () => {
    const redact = createRedactStream()
    expect(redact.write('the password: ')).toBe('')
    expect(redact.write('abc')).toBe('')
    expect(redact.write('def\nnext ')).toBe(`the password: ${REDACTED_LABEL}\nnext `)
    expect(redact.labels()).toEqual(['key_value'])
  })

  it('masks a key block across any number of chunks', () => {
    const redact = createRedactStream()
    const body = `${'A1b2'.repeat(16)}\n`
    let out = redact.write(`key:\n${PEM.split('\n')[0]}\n`)
    for (let line = 0; line < 20_000; line++) out += redact.write(body)
    out += redact.write(`${PEM.split('\n').at(-1)} done\n`)
    expect(out + redact.end()).toBe(`key:\n${REDACTED_LABEL} done\n`)
  })

  it('masks to the end when a key block never ends', () => {
    expect(stream(`ok\n${PEM.slice(0, -8)}\nmore\nand more`, 11)).toBe(`ok\n${REDACTED_LABEL}`)
  })
})

describe('lines too long for the buffer', () => {
  it('masks a token longer than the limit and releases what follows it', () => {
    const out = stream(`${TOKENS['Google access token']}${'x9'.repeat(200_000)} after\nnext\n`, 4096)
    expect(out).toBe(`${REDACTED_LABEL} after\nnext\n`)
  })

  it('masks a quoted secret longer than the limit', () => {
    const out = stream(`{"password":"${'ab '.repeat(100_000)}zz","n":1}\nnext\n`, 4096)
    expect(out).not.toContain('ab')
    expect(out).not.toContain('zz')
    expect(out).toContain('\nnext\n')
  })

  it('masks an unnamed word longer than the limit', () => {
    expect(stream(`a ${'q7'.repeat(200_000)} b\n`, 1000)).toBe(`a ${REDACTED_LABEL} b\n`)
  })

  it('releases a long line of ordinary members and masks the secret ones', () => {
    const members = Array.from({ length: 20_000 }, (_, n) =>
      n % 50 === 7 ? `"password":"s3cr-${n}"` : `"m${n}":"v${n}"`,
    )
    const text = `{${members.join(',')}}\n`
    const out = stream(text, 1500)
    expect(out).toBe(redactText(text).text)
    expect(out).not.toContain('s3cr')
  })

  it('masks a secret that only the text after the cut reveals', () => {
    for (let padding = 0; padding < 24; padding++) {
      const text = `token ${'x'.repeat(padding)} ${'https://s3cr-Zq7@host/a '.repeat(4000)}\n`
      expect(stream(text, 3000)).toBe(redactText(text).text)
    }
  })

  it('masks a key block in one very long line', () => {
    const text = `{"k":"${PEM.split('\n')[0]}\\n${'A1b2'.repeat(60_000)}\\n${PEM.split('\n').at(-1)}","n":1}\n`
    for (const size of [999, 8192]) {
      const out = stream(text, size)
      expect(out).not.toContain('A1b2')
      expect(out).toContain('"n":1')
    }
  })
})
