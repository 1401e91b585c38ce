import { describe, expect, it } from 'vitest'
import { TOKENS } from './corpus.fixture.ts'
import { dropPayloadKeys, REDACTED_LABEL, redactValue } from './redact.ts'

const token = TOKENS['GitHub personal token']

describe('a value under a secret name', () => {
  it.each([['text'], [42], [true], [{ a: { b: 'x' } }], [['x', 'y']]])('is masked whole: %j', (secret) => {
    expect(redactValue({ ok: 1, password: secret })).toEqual({
      value: { ok: 1, password: REDACTED_LABEL },
      redacted: true,
      paths: ['$.password'],
      labels: ['secret_key'],
    })
  })

  it.each([[null], [''], [REDACTED_LABEL], [[]], [{}]])('stays when it is empty: %j', (nothing) => {
    const value = { token: nothing }
    expect(redactValue(value)).toEqual({ value, redacted: false, paths: [], labels: [] })
  })

  it('stays when it counts tokens and is masked when it contains them', () => {
    expect(redactValue({ tokens: 12 }).value).toEqual({ tokens: 12 })
    expect(redactValue([{ name: 'tokens', value: 12 }]).redacted).toBe(false)
    expect(redactValue({ tokens: ['abc'] }).value).toEqual({ tokens: REDACTED_LABEL })
  })

  it('stays when it names a secret, unless the name is a secret', () => {
    expect(redactValue({ secret_ref_names: ['github'] }).redacted).toBe(false)
    expect(redactValue({ secret_ref_names: ['github', token] }).value).toEqual({
      secret_ref_names: ['github', REDACTED_LABEL],
    })
  })

  it('is found next to its name in manifests, header lists and argument lists', () => {
    expect(redactValue({ env: [{ name: 'DB_PASSWORD', value: 'x' }] }).paths).toEqual(['$.env[0].value'])
    expect(redactValue({ argv: ['login', '--token', 'x', '-v'] }).value).toEqual({
      argv: ['login', '--token', REDACTED_LABEL, '-v'],
    })
    expect(redactValue(['Accept', '*/*', 'Authorization', 'x y']).value).toEqual([
      'Accept',
      '*/*',
      'Authorization',
      REDACTED_LABEL,
    ])
    expect(redactValue([['DB_PASSWORD', 'x']]).value).toEqual([['DB_PASSWORD', REDACTED_LABEL]])
    expect(redactValue({ names: ['GITHUB_TOKEN', 'GH_TOKEN'] }).redacted).toBe(false)
    expect(redactValue(['curl', '-u', 'bob:x', 'https://h']).value).toEqual([
      'curl',
      '-u',
      REDACTED_LABEL,
      'https://h',
    ])
  })
})

describe('a name that is itself a secret', () => {
  it('is masked in the value and in the path', () => {
    const result = redactValue({ [token]: { n: 1, note: 'password=x' } })
    expect(JSON.stringify(result)).not.toContain(token)
    expect(result.paths).toEqual([`$["${REDACTED_LABEL}"]`, `$["${REDACTED_LABEL}"].note`])
  })

  it('does not replace its neighbour', () => {
    const result = redactValue({ [token]: 1, [TOKENS['npm token']]: 2 })
    expect(Object.values(result.value)).toEqual([1, 2])
  })

  it('treats an own __proto__ as an ordinary member', () => {
    const result = redactValue(JSON.parse('{"__proto__":{"password":"x"},"a":"token=x"}'))
    expect(JSON.stringify(result.value)).toBe(
      `{"__proto__":{"password":"${REDACTED_LABEL}"},"a":"token=${REDACTED_LABEL}"}`,
    )
  })
})

describe('the walk', () => {
  it('does not change its input and shares unchanged parts with the result', () => {
    const clean = { a: [1, 'two'] }
    const input = Object.freeze({ clean, dirty: Object.freeze({ token: 'x' }) })
    const { value } = redactValue(input)
    expect(value).toEqual({ clean, dirty: { token: REDACTED_LABEL } })
    expect(value.clean).toBe(clean)
    expect(input.dirty.token).toBe('x')
  })

  it('masks everything deeper than 64 levels', () => {
    let deep: unknown = 'password=x'
    for (let level = 0; level < 100; level++) deep = { d: deep }
    const result = redactValue(deep)
    expect(result.labels).toEqual(['depth_limit'])
    expect(result.paths).toEqual([`$${'.d'.repeat(65)}`])
    expect(JSON.stringify(result.value)).not.toContain('=x')
  })

  it('masks a cycle where it closes', () => {
    const loop: Record<string, unknown> = { name: 'a' }
    loop.self = loop
    expect(redactValue(loop)).toMatchObject({
      value: { name: 'a', self: REDACTED_LABEL },
      paths: ['$.self'],
      labels: ['cycle'],
    })
  })

  it('reads the toJSON result of an object and masks bytes', () => {
    expect(redactValue({ a: { toJSON: () => ({ token: 'x' }) } }).value).toEqual({
      a: { token: REDACTED_LABEL },
    })
    expect(redactValue({ a: new URL('https://bob:x@h/') }).value).toEqual({
      a: `https://${REDACTED_LABEL}@h/`,
    })
    expect(redactValue({ a: new Uint8Array(4) }).value).toEqual({ a: REDACTED_LABEL })
    const at = new Date(0)
    expect(redactValue({ at }).value.at).toBe(at)
  })
})

describe('environment metadata', () => {
  it('loses payload keys at every depth', () => {
    const value = {
      image: 'alpine',
      env: { A: '1' },
      runs: [{ exit: 0, stdout: 'x', nested: { stderr: 'y', rawCommand: 'z', host: 'h' } }],
    }
    expect(dropPayloadKeys(value)).toEqual({
      value: { image: 'alpine', runs: [{ exit: 0, nested: { host: 'h' } }] },
      dropped: ['$.env', '$.runs[0].stdout', '$.runs[0].nested.stderr', '$.runs[0].nested.rawCommand'],
    })
    expect(value.env).toEqual({ A: '1' })
  })

  it.each(
    `command command_payload credentials env environment environment_variables payload raw_command secret stderr stdin
    stdout target target_payload`.split(/\s+/),
  )('loses %s', (key) => {
    expect(dropPayloadKeys({ a: [{ [key]: 'x', b: 1 }] })).toEqual({
      value: { a: [{ b: 1 }] },
      dropped: [`$.a[0].${key}`],
    })
  })

  it('terminates on a cycle', () => {
    const loop: Record<string, unknown> = {}
    loop.again = loop
    expect(dropPayloadKeys(loop)).toEqual({ value: { again: null }, dropped: ['$.again'] })
  })
})
