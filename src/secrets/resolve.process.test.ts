import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { NEVER_ABORTED } from '../lib/never-aborted.fixture.ts'
import { addNamedCommand } from './commands.ts'
import { readKeyring } from './keyring.ts'
import { resolveSecret } from './resolve.ts'
import { runTool } from './run-tool.ts'
import { type BindingSource, MAX_VALUE_BYTES } from './secret.ts'
import { expectFailure, type SecretsFixture, secretsFixture, TESTER } from './secrets.fixture.ts'
import { bindSecret, storeSecret } from './secrets.ts'

const CANARY = 'canary-4f1d9b-value'

let fixture: SecretsFixture
let environment: NodeJS.ProcessEnv
beforeEach(async () => {
  fixture = await secretsFixture()
  environment = { PATH: `${join(fixture.folder, 'bin')}:${process.env.PATH}` }
})
afterEach(() => fixture[Symbol.asyncDispose]())

const bind = (source: BindingSource, reference: string) =>
  bindSecret(fixture.store, TESTER, 'KEY', { source, reference })
const resolve = (signal = NEVER_ABORTED) =>
  resolveSecret(fixture.store, fixture.home, environment, 'KEY', signal)
const resolveText = async () => (await resolve()).toString()

function file(content: string | Buffer, mode = 0o600): string {
  const path = join(fixture.folder, 'key.txt')
  writeFileSync(path, content)
  chmodSync(path, mode)
  return path
}

/** Creates an executable on the PATH with which the secret is resolved. */
function program(name: string, script: string): string {
  const folder = join(fixture.folder, 'bin')
  mkdirSync(folder, { recursive: true })
  const path = join(folder, name)
  writeFileSync(path, `#!/bin/sh\n${script}\n`, { mode: 0o755 })
  return path
}

it('reports that a name is unknown', async () => {
  expect(await expectFailure(resolve())).toMatchObject({ code: 'not_found', message: 'unknown secret KEY' })
})

it('returns what was stored', async () => {
  await storeSecret(fixture.store, fixture.home, TESTER, 'KEY', Buffer.from(CANARY))
  expect(await resolveText()).toBe(CANARY)
})

describe('an environment variable', () => {
  it('is read unchanged', async () => {
    await bind('env', 'SOME_VAR')
    environment.SOME_VAR = `${CANARY}\n`
    expect(await resolveText()).toBe(`${CANARY}\n`)
  })

  it('is unavailable when it is missing or empty, and the error names it', async () => {
    await bind('env', 'SOME_VAR')
    for (const value of [undefined, '']) {
      environment.SOME_VAR = value
      const error = await expectFailure(resolve())
      expect(error.code).toBe('unavailable')
      expect(error.message).toContain('env SOME_VAR')
    }
  })
})

describe('a file', () => {
  it('is read without its last line break', async () => {
    await bind('file', file(`one\n${CANARY}\n`))
    expect(await resolveText()).toBe(`one\n${CANARY}`)
  })

  it('can contain exactly 64 KiB, and not one byte more', async () => {
    await bind('file', file(`${'x'.repeat(MAX_VALUE_BYTES)}\r\n`))
    expect(await resolve()).toHaveLength(MAX_VALUE_BYTES)
    file('x'.repeat(MAX_VALUE_BYTES + 1))
    expect(await expectFailure(resolve())).toMatchObject({ code: 'unavailable' })
    file('x'.repeat(MAX_VALUE_BYTES + 10))
    expect(await expectFailure(resolve())).toMatchObject({ code: 'unavailable' })
  })

  it.each([0o644, 0o640, 0o604, 0o620, 0o610, 0o601])('is refused with mode %o', async (mode) => {
    await bind('file', file(CANARY, mode))
    const error = await expectFailure(resolve())
    expect(error.code).toBe('key_exposed')
    expect(JSON.stringify([error.message, error.hint])).not.toContain(CANARY)
    chmodSync(join(fixture.folder, 'key.txt'), 0o400)
    expect(await resolveText()).toBe(CANARY)
  })

  it('is refused when the path is a link to a private file', async () => {
    const link = join(fixture.folder, 'link')
    symlinkSync(file(CANARY), link)
    await bind('file', link)
    expect(await expectFailure(resolve())).toMatchObject({ code: 'key_exposed' })
  })

  it('is unavailable when it is missing or empty', async () => {
    await bind('file', join(fixture.folder, 'absent'))
    const error = await expectFailure(resolve())
    expect(error.code).toBe('unavailable')
    expect(error.hint).not.toContain('backup')
    await bind('file', file('\n'))
    expect(await expectFailure(resolve())).toMatchObject({ code: 'unavailable' })
  })
})

describe('a keyring item', () => {
  /**
   * Behaves like libsecret's tool. It prints the bare value, exits with 1 in silence when the item is missing, and
   * prints an error when the keyring is locked.
   */
  const secretTool = `
[ "$1" = lookup ] && [ "$2" = service ] && [ "$4" = account ] && [ $# -eq 5 ] || exit 2
[ "$3" = locked ] && { echo 'secret-tool: Cannot spawn a message bus ${CANARY}' >&2; exit 1; }
[ "$3/$5" = "my service/me" ] || exit 1
printf '%s' "$DBUS_SESSION_BUS_ADDRESS ${CANARY}"`

  it('is looked up by service and account with secret-tool, which gets the session bus and nothing else', async () => {
    program('secret-tool', `${secretTool}\nprintf '%s' "$OPENAI_API_KEY"`)
    environment.DBUS_SESSION_BUS_ADDRESS = 'unix:path=/bus'
    environment.OPENAI_API_KEY = 'not for the tool'
    expect(await readKeyring('my service/me', environment, [], { signal: NEVER_ABORTED }, 'linux')).toEqual({
      value: Buffer.from(`unix:path=/bus ${CANARY}`),
    })
  })

  it('is found in the macOS keychain with security', async () => {
    program(
      'security',
      `[ "$*" = "find-generic-password -s my service -a me -w" ] && echo ${CANARY} || exit 44`,
    )
    expect(await readKeyring('my service/me', environment, [], { signal: NEVER_ABORTED }, 'darwin')).toEqual({
      value: Buffer.from(CANARY),
    })
    expect(
      await readKeyring('my service/other', environment, [], { signal: NEVER_ABORTED }, 'darwin'),
    ).toEqual({
      reason: 'the keyring has no such item',
    })
  })

  it.runIf(process.platform === 'linux')(
    'is unavailable when it does not exist, and the error names it',
    async () => {
      program('secret-tool', secretTool)
      await bind('keyring', 'my service/other')
      const error = await expectFailure(resolve())
      expect(error.code).toBe('unavailable')
      expect(error.message).toContain('keyring my service/other: the keyring has no such item')
    },
  )

  it.runIf(process.platform === 'linux')('never shows the error output of the tool', async () => {
    program('secret-tool', secretTool)
    await bind('keyring', 'locked/me')
    const error = await expectFailure(resolve())
    expect(error.message).toContain('could not read the keyring')
    expect(`${error.message}${error.hint}${error.stack}`).not.toContain(CANARY)
  })

  it('is unavailable without the tool, and the hint shows how to install it', async () => {
    environment.PATH = join(fixture.folder, 'nothing-here')
    expect(await readKeyring('a/b', environment, [], { signal: NEVER_ABORTED }, 'linux')).toEqual({
      reason: 'secret-tool is not installed',
      hint: expect.stringContaining('apt install libsecret-tools'),
    })
    expect(await readKeyring('a/b', environment, [], { signal: NEVER_ABORTED }, 'win32')).toHaveProperty(
      'reason',
    )
  })
})

describe('a registered command', () => {
  const register = (ref: string, ...argv: string[]) => addNamedCommand(fixture.store, TESTER, ref, argv)

  it('returns what it prints, without its last line break and without Craik’s environment', async () => {
    await register('manager', program('manager', `printf '%s\\n' "${CANARY} $1 [$OPENAI_API_KEY]"`), 'a b')
    await bind('command', 'manager')
    environment.OPENAI_API_KEY = 'not for the command'
    expect(await resolveText()).toBe(`${CANARY} a b []`)
  })

  it.each([
    ['exits with another code', `echo ${CANARY}; echo ${CANARY} >&2; exit 3`, 'exited with code 3'],
    ['is killed', `kill -9 $$`, 'SIGKILL'],
    ['prints nothing', `echo ${CANARY} >&2`, 'it is empty'],
    ['prints too much', 'yes x | head -c 200000', 'bytes'],
  ])('is unavailable when it %s', async (_how, script, reason) => {
    await register('manager', program('manager', script))
    await bind('command', 'manager')
    const error = await expectFailure(resolve())
    expect(error.code).toBe('unavailable')
    expect(error.message).toContain('command manager')
    expect(error.message).toContain(reason)
    expect(`${error.message}${error.hint}${error.stack}`).not.toContain(CANARY)
  })

  it('is unavailable when its program is missing', async () => {
    await register('manager', join(fixture.folder, 'absent'))
    await bind('command', 'manager')
    expect(await expectFailure(resolve())).toMatchObject({ code: 'unavailable' })
  })

  it('is stopped when it exceeds its time limit', async () => {
    const { result, failure } = await runTool(
      { argv: [program('manager', 'exec sleep 60')], argv0: 'manager' },
      [],
      environment,
      { signal: NEVER_ABORTED },
      100,
    )
    expect(result.end).toBe('timeout')
    expect(failure).toBe('it took longer than 0.1 s')
  })

  it('is stopped by Ctrl-C', async () => {
    await register('manager', program('manager', 'exec sleep 60'))
    await bind('command', 'manager')
    expect(await expectFailure(resolve(AbortSignal.timeout(200)))).toMatchObject({ code: 'interrupted' })
  })
})
