import { describe, expect, it } from 'vitest'
import { CONTEXTS, MUST_KEEP, MUST_MASK, PEM, TOKENS } from './corpus.fixture.ts'
import { isSecretKey, REDACTED_LABEL, redactText, redactValue } from './redact.ts'

describe('secrets in text', () => {
  it.each(MUST_MASK)('masks $name', ({ text, secret }) => {
    const result = redactText(text)
    expect(result.text).not.toContain(secret)
    expect(result.text).toContain(REDACTED_LABEL)
    expect(result.labels.length).toBeGreaterThan(0)
  })

  it.each(MUST_MASK)('masks $name in the middle of prose', ({ text, secret }) => {
    expect(redactText(`First some words.\n${text}\nThen some more.`).text).not.toContain(secret)
  })

  it.each(MUST_MASK)('masks $name inside a JSON string', ({ text, secret }) => {
    const result = redactText(JSON.stringify({ output: text, after: 1 })).text
    expect(result).not.toContain(secret)
    expect(result).not.toContain(JSON.stringify(secret).slice(1, -1))
  })

  it.each(MUST_MASK)('masks $name in a nested value', ({ text, secret }) => {
    const result = redactValue({ steps: [{ output: { lines: ['ok', text] } }] })
    expect(JSON.stringify(result.value)).not.toContain(secret)
    expect(result.paths).toEqual(['$.steps[0].output.lines[1]'])
  })
})

describe('ordinary text', () => {
  it.each(MUST_KEEP)('keeps %j', (text) => {
    expect(redactText(text)).toEqual({ text, labels: [] })
  })

  it.each(MUST_KEEP)('keeps %j between other lines', (text) => {
    const lines = `First some words.\n${text}\nThen some more.`
    expect(redactText(lines).text).toBe(lines)
  })

  it.each(MUST_KEEP)('keeps %j in a nested value', (text) => {
    const value = { steps: [{ output: text }] }
    expect(redactValue(value)).toEqual({ value, redacted: false, paths: [], labels: [] })
  })
})

describe('secrets that simpler rules miss', () => {
  const id = TOKENS['AWS access key id']
  it.each([
    ['an AWS access key id', `key ${id} leaked`, id],
    ['AWS_SECRET_ACCESS_KEY=', 'AWS_SECRET_ACCESS_KEY=wJalrX/abc', 'wJalrX'],
    ['password: x', 'password: x', ': x'],
    ['JSON in a string', String.raw`{"body":"{\"password\":\"x1y2\"}"}`, 'x1y2'],
    ['Basic authorization', 'Authorization: Basic dXNlcjpwYXNz', 'dXNlcjpwYXNz'],
    ['Basic authorization on its own', 'sent Basic dXNlcjpwYXNz twice', 'dXNlcjpwYXNz'],
    ['a JWT', `cookie was ${TOKENS.JWT}`, TOKENS.JWT],
    ['a PEM block', PEM, PEM.split('\n')[1]!],
    ['postgres://u:p@', 'postgres://u:p@h/db', 'u:p'],
    ['a GitHub token with an underscore', TOKENS['GitHub personal token'], 'p_a1B2'],
  ])('masks %s', (_, text, secret) => {
    expect(redactText(text).text).not.toContain(secret)
  })

  it('does not change token counts', () => {
    const usage = {
      tokens: 12,
      max_tokens: 4096,
      prompt_tokens: 1,
      provider_tokens_used: 7,
      tokens_per_minute: 9,
    }
    expect(redactValue(usage).value).toEqual(usage)
  })

  it('redacts a reason or a summary like any other text', () => {
    const token = TOKENS['GitHub personal token']
    expect(redactValue({ reason: `denied ${token}`, summary: 'password=abc' }).value).toEqual({
      reason: `denied ${REDACTED_LABEL}`,
      summary: `password=${REDACTED_LABEL}`,
    })
  })
})

describe('text around a secret', () => {
  it.each([
    ['postgres://bob:abc1@db:5432/x', `postgres://${REDACTED_LABEL}@db:5432/x`],
    ['Authorization: Bearer abc123def', `Authorization: Bearer ${REDACTED_LABEL}`],
    ['a=1&token=abc&b=2', `a=1&token=${REDACTED_LABEL}&b=2`],
    ['{"password":"a\\"b","n":1}', `{"password":"${REDACTED_LABEL}","n":1}`],
    ['--token abc --verbose', `--token ${REDACTED_LABEL} --verbose`],
    ["export FOO_TOKEN='a b' # note", `export FOO_TOKEN='${REDACTED_LABEL}' # note`],
    ['{user: bob, password: abc}', `{user: bob, password: ${REDACTED_LABEL}}`],
    ['f(password=abc, n=1)', `f(password=${REDACTED_LABEL}, n=1)`],
    ['tokens: ["a","b"]', `tokens: ["${REDACTED_LABEL}","${REDACTED_LABEL}"]`],
  ])('%j becomes %j', (text, expected) => {
    expect(redactText(text).text).toBe(expected)
  })

  it('names the rules that matched, sorted and without duplicates', () => {
    const text = `${TOKENS.JWT} ${TOKENS['AWS access key id']} ${TOKENS.JWT} password=x https://u:p@h`
    expect(redactText(text).labels).toEqual(['aws_access_key_id', 'jwt', 'key_value', 'url_userinfo'])
  })
})

describe('the corpus', () => {
  it('is large enough to be meaningful', () => {
    expect(Object.keys(TOKENS).length + Object.keys(CONTEXTS).length).toBeGreaterThanOrEqual(80)
    expect(MUST_KEEP.length).toBeGreaterThanOrEqual(60)
  })
})

describe('secret names', () => {
  it.each(
    `secret token password passwd passphrase pwd api_key apikey apiKey API_KEY x-api-key credential credentials
    private_key privateKey authorization Authorization cookie Set-Cookie access_key AWS_SECRET_ACCESS_KEY client_secret
    accessToken refresh-token GITHUB_TOKEN PGPASSWORD DB_PASS password1 token_2 token_value password_hash secrets
    tokens _auth _authToken AccountKey signing_key userPassword OPENAI_KEY secretAccessKey`.split(/\s+/),
  )('%s is a secret name', (key) => {
    expect(isSecretKey(key)).toBe(true)
  })

  it.each(
    `max_tokens maxTokens estimated_tokens input_tokens outputTokens total_tokens provider_tokens_used cached_tokens
    provider_token_budget provider_token_budget_remaining tokens_per_minute prompt_tokens secret_ref secret_ref_names
    secretRef db_password_ref_name allowed_credential_ids allowed_credential_names token_count token_type credential_mode
    tokenizer passwordless public_key cache_key key keys author authority compass PWD token_expires_at token_hash
    access_key_id has_token secretary cookie_name cacheReadInputTokens primary_key passed monkey`.split(
      /\s+/,
    ),
  )('%s is not a secret name', (key) => {
    expect(isSecretKey(key)).toBe(false)
  })
})
