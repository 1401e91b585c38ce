import fc from 'fast-check'
import { expect, it } from 'vitest'
import { SecretEcho } from './secret-echo.ts'

const TOKEN = 'gho_made-up-token-of-some-length'
const BASIC = `Basic ${Buffer.from(`x-access-token:${TOKEN}`).toString('base64')}`
const echo = new SecretEcho([`Bearer ${TOKEN}`, BASIC])

async function passed(chunks: readonly Buffer[]): Promise<Buffer> {
  const out: Buffer[] = []
  const all = async function* () {
    yield* chunks
  }
  for await (const chunk of echo.without(all())) out.push(chunk)
  return Buffer.concat(out)
}

const cut = (bytes: Buffer, at: readonly number[]) => {
  const ends = [...new Set(at.map((one) => one % (bytes.length + 1)))].sort((a, b) => a - b)
  return [0, ...ends].map((from, i) => bytes.subarray(from, ends[i] ?? bytes.length))
}

it('passes on every byte of what does not repeat it, however it is cut', () =>
  fc.assert(
    fc.asyncProperty(
      fc.uint8Array({ maxLength: 500 }),
      fc.array(fc.nat(), { maxLength: 8 }),
      async (bytes, at) => {
        expect((await passed(cut(Buffer.from(bytes), at))).equals(Buffer.from(bytes))).toBe(true)
      },
    ),
  ))

it.each([
  ['as it is', TOKEN],
  ['as git sends it', BASIC],
  ['in base64, after something else', Buffer.from(`token=${TOKEN}`).toString('base64')],
])('holds back all of it %s, however it is cut', (_, spelled) =>
  fc.assert(
    fc.asyncProperty(fc.array(fc.nat(), { maxLength: 8 }), async (at) => {
      const bytes = Buffer.from(`before ${spelled} after`)
      await expect(passed(cut(bytes, at))).rejects.toMatchObject({ code: 'provider_failed' })
    }),
  ),
)
