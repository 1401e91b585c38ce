import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { NEVER_ABORTED } from '../lib/never-aborted.fixture.ts'
import { addNamedCommand, deleteCommand } from './commands.ts'
import { resolveSecret } from './resolve.ts'
import { type BindingSource, MAX_VALUE_BYTES } from './secret.ts'
import { expectFailure, type SecretsFixture, secretsFixture, TESTER } from './secrets.fixture.ts'
import { bindSecret, deleteSecret, listSecrets, storeSecret } from './secrets.ts'

const CANARY = 'canary-7c20e5-value'

let fixture: SecretsFixture
beforeEach(async () => {
  fixture = await secretsFixture(() => 1_700_000_000_000)
})
afterEach(() => fixture[Symbol.asyncDispose]())

const set = (name: string, value: string | Buffer = CANARY) =>
  storeSecret(fixture.store, fixture.home, TESTER, name, Buffer.from(value))
const bind = (name: string, source: BindingSource, reference: string) =>
  bindSecret(fixture.store, TESTER, name, { source, reference })
const resolve = async (name: string) =>
  (await resolveSecret(fixture.store, fixture.home, {}, name, NEVER_ABORTED)).toString()
const row = (name: string) => fixture.store.read((tables) => tables.secrets.get(name))
const keyPath = () => join(fixture.home.secrets, 'at-rest.key')

describe('names and references', () => {
  const looksReal = ['sk', 'proj', 'Ab12Cd34Ef56Gh78Ij90Kl12Mn34'].join('-')

  it.each(['', '1KEY', '-KEY', '_KEY', 'A B', 'A=b', 'A/b', 'ключ', 'A'.repeat(129), looksReal])(
    'refuses %j as a name without repeating it',
    async (name) => {
      const error = await expectFailure(set(name))
      expect(error.code).toBe('usage')
      if (name.length > 4) expect(`${error.message}${error.hint}`).not.toContain(name)
      expect(fixture.receipts).toEqual([])
    },
  )

  it.each<[BindingSource, string]>([
    ['env', ''],
    ['env', 'A-B'],
    ['env', looksReal],
    ['file', ''],
    ['file', 'relative/path'],
    ['file', '/nul\0byte'],
    ['keyring', 'no-account'],
    ['keyring', '/account'],
    ['keyring', 'service/'],
    ['keyring', '--help/account'],
    ['keyring', 'service/-x'],
    ['keyring', 'new\nline/account'],
    ['command', 'with blank'],
  ])('refuses %s %j', async (source, reference) => {
    expect(await expectFailure(bind('KEY', source, reference))).toMatchObject({ code: 'usage' })
    expect(await listSecrets(fixture.store)).toEqual([])
  })

  it('refuses to bind to a command that is not registered', async () => {
    expect(await expectFailure(bind('KEY', 'command', 'absent'))).toMatchObject({ code: 'not_found' })
  })
})

describe('the list', () => {
  it('contains names and sources, and nothing of a stored value', async () => {
    await bind('B', 'env', 'VAR')
    await set('A')
    expect(await listSecrets(fixture.store)).toEqual([
      { name: 'A', source: 'stored', reference: null, updatedAtMs: 1_700_000_000_000 },
      { name: 'B', source: 'env', reference: 'VAR', updatedAtMs: 1_700_000_000_000 },
    ])
  })
})

describe('every change', () => {
  const receipt = (operation: string, source: string) => ({
    kind: 'environment_decision',
    phase: 'point',
    status: 'passed',
    operator: TESTER,
    capability: 'secret.write',
    operation,
    target: 'secret/KEY',
    links: { secret_ref: 'KEY' },
    metadata: { source },
  })

  it('is recorded in one receipt with the name and the kind of source', async () => {
    await bind('KEY', 'env', 'PRIVATE_VARIABLE')
    await bind('KEY', 'file', '/private/path')
    await set('KEY')
    await bind('KEY', 'keyring', 'private-service/account')
    await deleteSecret(fixture.store, TESTER, 'KEY')
    expect(fixture.receipts).toEqual([
      receipt('bind', 'env'),
      receipt('rebind', 'file'),
      receipt('set', 'stored'),
      receipt('rebind', 'keyring'),
      receipt('remove', 'keyring'),
    ])
  })

  it('is not made when its receipt cannot be written', async () => {
    await bind('KEY', 'env', 'BEFORE')
    for (const change of [
      () => bind('KEY', 'env', 'AFTER'),
      () => set('KEY'),
      () => deleteSecret(fixture.store, TESTER, 'KEY'),
      () => addNamedCommand(fixture.store, TESTER, 'ref', ['true']),
    ]) {
      fixture.failNextReceipt()
      expect(await expectFailure(change())).toMatchObject({ code: 'disk_full' })
    }
    expect(await row('KEY')).toMatchObject({ source: 'env', reference: 'BEFORE', sealed: null })
    expect(await fixture.store.read((tables) => tables.commands.list())).toEqual([])
    expect(fixture.receipts).toHaveLength(1)
  })

  it('to a command is recorded by its reference', async () => {
    await addNamedCommand(fixture.store, TESTER, 'manager', ['/opt/manager/bin', 'show'])
    await bind('KEY', 'command', 'manager')
    expect(await deleteCommand(fixture.store, TESTER, 'manager')).toEqual(['KEY'])
    expect(fixture.receipts.map((draft) => [draft.capability, draft.operation, draft.target])).toEqual([
      ['command.write', 'register', 'command/manager'],
      ['secret.write', 'bind', 'secret/KEY'],
      ['command.write', 'remove', 'command/manager'],
    ])
    expect(JSON.stringify(fixture.receipts)).not.toContain('/opt/manager')
  })

  it('to a secret that does not exist is refused', async () => {
    expect(await expectFailure(deleteSecret(fixture.store, TESTER, 'KEY'))).toMatchObject({
      code: 'not_found',
    })
    expect(fixture.receipts).toEqual([])
  })
})

describe('a stored value', () => {
  it('can be any bytes, from 1 byte to 64 KiB', async () => {
    for (const value of [Buffer.of(0), Buffer.alloc(MAX_VALUE_BYTES, 255)]) {
      await set('KEY', value)
      expect(await resolveSecret(fixture.store, fixture.home, {}, 'KEY', NEVER_ABORTED)).toEqual(value)
    }
    expect(await expectFailure(set('KEY', ''))).toMatchObject({ code: 'usage' })
    expect(await expectFailure(set('KEY', Buffer.alloc(MAX_VALUE_BYTES + 1)))).toMatchObject({
      code: 'too_large',
    })
  })

  it('is nowhere in the Craik home in plain text, while a plain value would be found', async () => {
    await set('KEY')
    await set('OTHER', `${CANARY} again`)
    await bind('PLAIN', 'env', 'PLANTED_REFERENCE')
    await fixture.store.close()
    const bytes = readdirSync(fixture.home.root, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => readFileSync(join(entry.parentPath, entry.name)))
    const holds = (text: string | Buffer) => bytes.some((content) => content.includes(text))
    expect(holds('PLANTED_REFERENCE')).toBe(true)
    expect(holds(CANARY)).toBe(false)
    expect(holds(Buffer.from(CANARY).toString('base64').slice(0, 20))).toBe(false)
    expect(holds(Buffer.from(CANARY).toString('hex'))).toBe(false)
    expect(JSON.stringify(fixture.receipts)).not.toContain(CANARY)
  })

  it('cannot be passed off as the value of another name', async () => {
    await set('DEV', 'dev value')
    await set('PROD', 'prod value')
    const [dev, prod] = [await row('DEV'), await row('PROD')]
    await fixture.store.read(async (tables) => {
      await tables.secrets.put({ ...dev!, sealed: prod!.sealed })
      await tables.secrets.put({ ...prod!, sealed: dev!.sealed })
    })
    for (const name of ['DEV', 'PROD']) {
      const error = await expectFailure(resolve(name))
      expect(error.code).toBe('store_damaged')
      expect(error.message).toContain(name)
    }
  })

  it('no longer exists when its name is bound elsewhere or removed', async () => {
    await set('KEY')
    await bind('KEY', 'env', 'VAR')
    expect((await row('KEY'))?.sealed).toBeNull()
    await deleteSecret(fixture.store, TESTER, 'KEY')
    expect(await expectFailure(resolve('KEY'))).toMatchObject({ code: 'not_found' })
  })
})

describe('the key', () => {
  it('is 32 bytes in a 0600 file, created once on first use', async () => {
    await bind('KEY', 'env', 'VAR')
    expect(existsSync(keyPath())).toBe(false)
    await set('KEY')
    expect(statSync(keyPath()).mode & 0o777).toBe(0o600)
    const key = readFileSync(keyPath())
    expect(key).toHaveLength(32)
    await set('KEY', 'again')
    expect(readFileSync(keyPath())).toEqual(key)
  })

  it('is the same for all callers that need it at once', async () => {
    await Promise.all(Array.from({ length: 20 }, () => secretKeyOnce()))
    async function secretKeyOnce() {
      const { readOrCreateAtRestKey: readOrMakeAtRestKey } = await import('./at-rest-key.ts')
      expect(await readOrMakeAtRestKey(fixture.store, fixture.home)).toEqual(readFileSync(keyPath()))
    }
  })

  it('is never created again while stored values depend on the lost one', async () => {
    await set('KEY')
    rmSync(keyPath())
    expect(await expectFailure(resolve('KEY'))).toMatchObject({ code: 'key_unreadable' })
    expect(await expectFailure(set('OTHER'))).toMatchObject({ code: 'key_unreadable' })
    expect(existsSync(keyPath())).toBe(false)
    await deleteSecret(fixture.store, TESTER, 'KEY')
    await set('OTHER')
    expect(await resolve('OTHER')).toBe(CANARY)
  })

  it.each([31, 33, 0])('of %i bytes is refused', async (length) => {
    await set('KEY')
    writeFileSync(keyPath(), Buffer.alloc(length))
    expect(await expectFailure(resolve('KEY'))).toMatchObject({ code: 'key_unreadable' })
  })
})
