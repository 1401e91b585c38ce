/**
 * Redaction of each kind of secret that the original Craik did not redact: in text, in values, and in a receipt's
 * metadata.
 */
import { describe, expect, it } from 'vitest'
import { redactText, redactValue } from '../../src/receipts/redaction/redact.ts'
import { sandboxScene } from '../../src/sandboxes/sandbox.fixture.ts'

const LETTERS = 'Zq3Vx8Lm2Np7Rt5Kw9Yb4Hd6'
const JWT = ['eyJhbGciOiJIUzI1NiJ9', 'eyJzdWIiOiJvY3RvIn0', LETTERS].join('.')

/** The kind of secret, a text that contains it, and the part that must not remain. */
const MISSED: readonly (readonly [string, string, string])[] = [
  ['an AWS key id', `key ${'AKIA'}IOSFODNN7EXAMPLE.`, 'IOSFODNN7EXAMPLE'],
  ['an assignment of an AWS secret', `AWS_SECRET_ACCESS_KEY=${LETTERS}abcdEFGH12345678`, LETTERS],
  ['a password after a colon', 'password: correct-horse-battery', 'correct-horse-battery'],
  ['JSON in a string', JSON.stringify({ log: JSON.stringify({ api_key: LETTERS }) }), LETTERS],
  ['basic authentication', `Authorization: Basic ${btoa(`octo:${LETTERS}`)}`, btoa(`octo:${LETTERS}`)],
  ['a JWT', `session ${JWT} ended`, LETTERS],
  [
    'a private key',
    ['-----BEGIN PRIVATE ', 'KEY-----\n', LETTERS, '\n-----END PRIVATE ', 'KEY-----'].join(''),
    LETTERS,
  ],
  ['the password of a database URL', `postgres://octo:${LETTERS}@db.example/craik`, LETTERS],
  ['a GitHub token with an underscore', `pushed with ghp_${LETTERS}${LETTERS.slice(0, 12)}`, LETTERS],
]

describe.each(MISSED)('%s', (_, text, secret) => {
  it('is masked in text, and masking again changes nothing', () => {
    const redacted = redactText(text)
    expect(redacted.text).not.toContain(secret)
    expect(redacted.text).toContain('[REDACTED]')
    expect(redactText(redacted.text).text).toBe(redacted.text)
  })

  it('is masked in values at any depth', () => {
    const { value } = redactValue({ note: [{ deep: text }], safe: 'as it was' })
    expect(JSON.stringify(value)).not.toContain(secret)
    expect(value.safe).toBe('as it was')
  })

  it('never reaches a receipt', async () => {
    const { store } = await sandboxScene()
    await store.log.append({
      kind: 'environment_decision',
      status: 'passed',
      operator: 'operator:ada',
      capability: 'model.chat',
      links: {},
      metadata: { note: text, nested: [{ text }], [text]: 1 } as never,
    })
    expect(JSON.stringify(await store.bodies())).not.toContain(secret)
  })
})

describe('a token count', () => {
  it('is not masked', () => {
    const counts = { input_tokens: 12, max_tokens: 4096, provider_token_budget_remaining: 7 }
    expect(redactValue(counts).value).toEqual(counts)
    expect(redactText('input_tokens: 12, max_tokens=4096').text).toBe('input_tokens: 12, max_tokens=4096')
  })
})
