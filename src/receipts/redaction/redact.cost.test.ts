import { describe, expect, it } from 'vitest'
import { createRedactStream, redactText } from './redact.ts'

const SIZE = 500_000

/**
 * Nothing is timed. A rule that reads each character more than a fixed number of times would need about 2 · 10^11 steps
 * here. The test runner's timeout would stop it.
 */
describe('a megabyte of any input', () => {
  it.each(
    [
      'a',
      'eyJ',
      'eyJ.',
      'sk-',
      'task-',
      'ghp_',
      'xai-',
      'AKIA',
      '1',
      '12345678:',
      '=',
      ':',
      '.',
      '-',
      '<',
      '\\',
      '"\\"',
      '://',
      '://a:b/',
      'http://a:b@',
      '@tcp(',
      '%3A%2F%2Fa',
      '&sig=',
      'oracle:thin:a/',
      ' ',
      '\n',
      '\t',
      'token',
      'token=',
      'token="',
      'token: ',
      'token:[a,',
      '"token":{',
      '"token":{"a":',
      'tokens: ["a",',
      '--token ',
      'password          ',
      'password is ',
      '<password>',
      '<password ',
      'Cookie: a ',
      '"Cookie: a',
      'auth="',
      'Authorization: Digest ',
      'Bearer ',
      'curl -u a',
      'login a ',
      "identified by '",
      'echo a |',
      'name: token\n',
      '-----BEGIN PRIVATE KEY-----',
      '-----BEGIN PRIVATE KEY-----`',
      '-----END PRIVATE KEY-----\n',
      'key: |\n',
      `${'YWJj'.repeat(19)}\n`,
      `${'QUFB'.repeat(15)}\\n`,
      'dG9rZW49YWJj',
      'password=)))))))',
      'mysql -p',
      'docker login -p a ',
      'openssl ',
      'eyJwd2QiOiJhYmNkMSJ9 ',
      "password=''",
      'pass: a1b2c3 ',
      'read_token: a ',
      'a\u001b[1m',
      'token=a1\u001b[1mb ',
      'p\0',
      'pwd=,a&b;c',
    ].map((pattern) => [JSON.stringify(pattern), pattern] as const),
  )('is redacted in linear time: %s', (_, pattern) => {
    const text = pattern.repeat(SIZE / pattern.length)
    redactText(text)
    const stream = createRedactStream()
    for (let at = 0; at < text.length; at += 16_384) stream.write(text.slice(at, at + 16_384))
    stream.end()
    expect(redactText('').text).toBe('')
  })

  it('is accepted in chunks of one character', () => {
    const stream = createRedactStream()
    let shown = 0
    for (let at = 0; at < SIZE; at++) shown += stream.write(at % 97 === 0 ? ' ' : 'a').length
    expect(shown + stream.end().length).toBe(SIZE)
  })
})
