import { expect, test } from 'vitest'
import { checkPolicyText, loadPolicy } from './cedar.ts'
import { readBuiltInPolicy } from './profiles.ts'

const permit = (id: string, when = 'true') =>
  `@id("${id}")\npermit (principal, action, resource)\nwhen { ${when} };\n`
const request = { operator: 'local-user:ada', capability: 'repo.read', target: 'repo' }

test.each(['strict', 'trusted-local', 'automation'] as const)(
  'accepts the profile %s without errors or warnings',
  async (profile) => {
    expect(await checkPolicyText(readBuiltInPolicy(profile))).toEqual([])
  },
)

test('names the deciding rules in the order of the text, even with more than ten', async () => {
  const text = Array.from({ length: 13 }, (_, i) =>
    permit(`custom.r${i}`, i % 4 === 1 ? 'true' : 'false'),
  ).join('')
  const policy = await loadPolicy(text)
  expect(policy.rules.map(({ id }) => id)).toEqual(Array.from({ length: 13 }, (_, i) => `custom.r${i}`))
  expect(policy.decide({ ...request, context: {} })).toEqual({
    effect: 'allow',
    rules: ['custom.r1', 'custom.r5', 'custom.r9'],
    failed: false,
  })
})

test('denies when a policy cannot be evaluated, even if another one permits', async () => {
  const policy = await loadPolicy(permit('custom.all') + permit('custom.broken', 'context.absent == 1'))
  expect(policy.decide({ ...request, context: {} })).toMatchObject({ effect: 'deny', failed: true })
})

test('denies when a forbid cannot be evaluated', async () => {
  const forbid = '@id("custom.no") forbid (principal, action, resource) when { context.absent };'
  const policy = await loadPolicy(permit('custom.all') + forbid)
  expect(policy.decide({ ...request, context: {} })).toMatchObject({ effect: 'deny', failed: true })
})

test('reports the position of a syntax error', async () => {
  const [finding] = await checkPolicyText('// one\n@id("custom.a")\npermitt (principal, action, resource);')
  expect(finding).toMatchObject({ line: 3, column: 1, severity: 'error' })
  expect(finding?.message).toContain('permitt')
})

test('counts characters, not bytes, in a position after non-ASCII text', async () => {
  const text = '// žluťoučký 😀\n@id("custom.ž😀") permitt (principal, action, resource);'
  const [finding] = await checkPolicyText(text)
  expect(finding).toMatchObject({ line: 2, column: 18 })
  expect([...text.split('\n')[1]!].slice(17, 24).join('')).toBe('permitt')
})

test('reports the position where the text ends too early', async () => {
  const [finding] = await checkPolicyText('// é\npermit (principal, action, resource) when {')
  expect(finding).toMatchObject({ line: 2, column: 44, severity: 'error' })
})

test('reports each reference to an unknown name once, under that name', async () => {
  const text = `// é😀\n${permit('custom.a')}@id("custom.b")\npermit (principal, action == Action::"repo.reed", resource);\n`
  const errors = (await checkPolicyText(text)).filter(({ severity }) => severity === 'error')
  expect(errors).toHaveLength(1)
  expect(errors[0]).toMatchObject({ line: 6, column: 30 })
  expect(errors[0]?.message).toContain('custom.b: unrecognized action')
  expect(errors[0]?.message).toContain('did you mean')
})

test('reports a mistake once although it applies to every action', async () => {
  const findings = await checkPolicyText(permit('custom.a', 'context.path == "x"'))
  expect(findings).toHaveLength(1)
  expect(findings[0]).toMatchObject({ line: 3, column: 8, severity: 'error' })
})

test.each([
  ['no name', 'permit (principal, action, resource);', 'needs a name'],
  ['an empty name', '@id permit (principal, action, resource);', 'needs a name'],
  ['a name that is none', '@id("a b") permit (principal, action, resource);', 'is not a valid name'],
  ['a name of ours', '@id("envelope.operator") permit (principal, action, resource);', 'own rules'],
  ['one of ours again', '@id("default_deny") permit (principal, action, resource);', 'own rules'],
  ['a template', '@id("x") permit (principal == ?principal, action, resource);', 'templates'],
])('refuses a policy with %s and reports the position', async (_, text, message) => {
  const [finding] = await checkPolicyText(`${permit('custom.first')}\n  ${text}`)
  expect(finding).toMatchObject({ line: 5, column: 3, severity: 'error' })
  expect(finding?.message).toContain(message)
  await expect(loadPolicy(`${permit('custom.first')}\n  ${text}`)).rejects.toMatchObject({
    code: 'invalid_config',
  })
})

test('refuses a duplicate name and reports the second position', async () => {
  const [finding] = await checkPolicyText(permit('custom.a') + permit('custom.a'))
  expect(finding).toMatchObject({ line: 4, column: 1 })
})

test('accepts an empty policy, which allows nothing', async () => {
  expect(await checkPolicyText('// nothing yet\n')).toEqual([])
  const policy = await loadPolicy('// nothing yet\n')
  expect(policy.decide({ ...request, context: {} })).toEqual({ effect: 'deny', rules: [], failed: false })
})

/** Each of these texts, passed to the engine, would make every later decision of the thread fail. */
test.each([
  ['brackets', `${'('.repeat(2000)}true${')'.repeat(2000)}`],
  ['negations', `${'!'.repeat(2000)}true`],
  ['sums', `1${' + 1'.repeat(5000)} == 1`],
  ['attributes', `context${'.a'.repeat(5000)} == 1`],
  ['conditions', `${'if true then true else '.repeat(5000)}true`],
  ['indices', `context${'["a"]'.repeat(5000)} == 1`],
])('refuses a policy with excessive %s and keeps the engine usable', async (_, expression) => {
  const text = permit('custom.tower', expression)
  expect(await checkPolicyText(text)).toMatchObject([{ line: 3, severity: 'error' }])
  await expect(loadPolicy(text)).rejects.toMatchObject({ code: 'invalid_config' })
  expect(await checkPolicyText(permit('custom.fine'))).toEqual([])
})

test('ignores brackets in strings and comments', async () => {
  const long = '('.repeat(500)
  expect(
    await checkPolicyText(`// ${long}\n${permit('custom.a', `context.operation == "${long}\\""`)}`),
  ).toEqual([])
})
