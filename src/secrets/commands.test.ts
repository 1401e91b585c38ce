import { afterEach, beforeEach, expect, it } from 'vitest'
import { addNamedCommand, deleteCommand, listCommands } from './commands.ts'
import { expectFailure, type SecretsFixture, secretsFixture, TESTER } from './secrets.fixture.ts'

let fixture: SecretsFixture
beforeEach(async () => {
  fixture = await secretsFixture(() => 1_700_000_000_000)
})
afterEach(() => fixture[Symbol.asyncDispose]())

const register = (ref: string, ...argv: string[]) => addNamedCommand(fixture.store, TESTER, ref, argv)

it('stores the arguments unchanged', async () => {
  await register('tool', 'op', 'read', 'op://vault/item/field', '', 'a  b', '--flag')
  expect(await listCommands(fixture.store)).toEqual([
    {
      ref: 'tool',
      argv: ['op', 'read', 'op://vault/item/field', '', 'a  b', '--flag'],
      createdAtMs: 1_700_000_000_000,
    },
  ])
})

it('refuses a reference that is taken, and keeps its command', async () => {
  await register('tool', 'first')
  expect(await expectFailure(register('tool', 'second'))).toMatchObject({ code: 'conflict' })
  expect((await listCommands(fixture.store))[0]?.argv).toEqual(['first'])
})

it.each([
  ['a token as a flag’s value', ['curl', '--token', 'abcdef1234567890']],
  ['a token in one argument', ['curl', ['ghp', 'abcdefghijklmnopqrstuvwxyz0123456789'].join('_')]],
  ['a header', ['curl', '-H', 'Authorization: Bearer abcdef1234567890']],
  ['a password in a URL', ['curl', 'https://me:hunter22@example.test/']],
])('refuses %s without repeating it', async (_what, argv) => {
  const error = await expectFailure(register('tool', ...argv))
  expect(error.code).toBe('usage')
  expect(error.hint).toContain('craik secret bind')
  for (const argument of argv.slice(1)) expect(`${error.message}${error.hint}`).not.toContain(argument)
  expect(await listCommands(fixture.store)).toEqual([])
})

it.each([
  ['no program', 'usage', []],
  ['an empty program', 'usage', ['', 'x']],
  ['65 arguments', 'too_large', Array.from({ length: 65 }, () => 'x')],
  ['17 KiB of arguments', 'too_large', ['echo', 'x'.repeat(17 * 1024)]],
])('refuses %s', async (_what, code, argv) => {
  expect(await expectFailure(register('tool', ...argv))).toMatchObject({ code })
})

it('removes a command, and refuses to remove it twice', async () => {
  await register('tool', 'true')
  expect(await deleteCommand(fixture.store, TESTER, 'tool')).toEqual([])
  expect(await expectFailure(deleteCommand(fixture.store, TESTER, 'tool'))).toMatchObject({
    code: 'not_found',
  })
})
