import fc from 'fast-check'
import { expect, it } from 'vitest'
import { CredentialEcho } from './credential-echo.ts'

const LENGTH = 8
const SPELLINGS = [
  (secret: string) => secret,
  (secret: string) => encodeURIComponent(secret),
  (secret: string) => Buffer.from(secret, 'latin1').toString('base64'),
  (secret: string) => Buffer.from(secret, 'latin1').toString('hex'),
]
const secrets = fc.stringMatching(/^[!-~]{8,60}$/)

it('finds eight characters in a row of any spelling, in short texts and in long ones', () => {
  fc.assert(
    fc.property(
      secrets,
      fc.constantFrom(...SPELLINGS),
      fc.nat(),
      fc.constantFrom(0, 10, 600),
      fc.boolean(),
      (secret, spelling, from, padding, upper) => {
        const spelled = spelling(secret)
        const at = from % (spelled.length - LENGTH + 1)
        const piece = spelled.slice(at, at + LENGTH)
        const words = `${'~'.repeat(padding)} ${upper ? piece.toUpperCase() : piece} and more`
        expect(new CredentialEcho(Buffer.from(secret, 'latin1'), LENGTH).isIn(words)).toBe(true)
      },
    ),
  )
})

it('says the same of a text however long the rest of it is', () => {
  fc.assert(
    fc.property(secrets, fc.string({ maxLength: 60 }), fc.nat({ max: 50 }), (secret, text, cut) => {
      const echo = new CredentialEcho(Buffer.from(secret, 'latin1'), LENGTH)
      const words = text + secret.slice(cut, cut + LENGTH + 2)
      // A blank is in no spelling, so what follows one adds nothing.
      expect(echo.isIn(words + ' '.repeat(600))).toBe(echo.isIn(words))
    }),
  )
})

it('does not look for what is too short, or not there', () => {
  expect(new CredentialEcho(Buffer.from('short'), LENGTH).isIn('short '.repeat(100))).toBe(false)
  expect(new CredentialEcho(undefined, LENGTH).isIn('anything')).toBe(false)
  expect(new CredentialEcho(Buffer.from('a-long-credential'), LENGTH).isIn('a-long-')).toBe(false)
})
