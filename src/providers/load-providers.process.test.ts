/** Tests the user's own providers: Craik loads a valid file and refuses others with the file and the field. */
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { stringify } from 'yaml'
import { homeAt } from '../store/home.ts'
import { findProvider, loadProviders } from './load-providers.ts'
import { CATALOGUE } from './provider-catalogue.ts'
import { OWN_RECORD } from './provider-record.fixture.ts'

let root: string
let folder: string

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'craik-registry-'))
  folder = join(root, 'config', 'providers')
  mkdirSync(folder, { recursive: true })
})
afterEach(() => rmSync(root, { recursive: true, force: true }))

describe('all providers', () => {
  it('are only those of the catalogue, sorted by id, when there are no files', async () => {
    rmSync(join(root, 'config'), { recursive: true })
    const ids = (await load()).map(({ id }) => id)
    expect(ids).toEqual(CATALOGUE.map(({ id }) => id).sort())
  })

  it('include those of JSON and YAML files, sorted by id among the others', async () => {
    put('b.json', JSON.stringify(OWN_RECORD))
    put('a.yaml', stringify({ ...OWN_RECORD, id: 'provider_a' }))
    put('c.yml', stringify({ ...OWN_RECORD, id: 'provider_z' }))
    const records = await load()
    expect(records.map(({ id }) => id)).toEqual(records.map(({ id }) => id).toSorted())
    expect(records).toHaveLength(CATALOGUE.length + 3)
    expect(findProvider(records, 'provider_a')).toEqual({
      ...findProvider(records, 'provider_team_gateway'),
      id: 'provider_a',
      budget_ref: 'budget_provider_a',
      quota_ref: 'quota_provider_a',
    })
  })

  it('do not include files that are not config files', async () => {
    put('README.md', '# notes')
    put('.draft.json', '{')
    put('old.json~', '{')
    mkdirSync(join(folder, 'folder.json'))
    expect(await load()).toHaveLength(CATALOGUE.length)
  })
})

describe('refuses a file, and names the file and the field,', () => {
  it.each([
    [
      'an undeclared mode',
      { modes: ['runner'] },
      /^config\/providers\/own\.json: capabilities\.0\.mode: 'chat'/,
    ],
    ['secret-shaped metadata', { metadata: { api_key: 'x' } }, /own\.json: metadata\.api_key: has the name/],
    ['an unknown field', { regoin: 'eu' }, /own\.json: .*regoin/],
  ])('for %s', async (_, change, message) => {
    put('own.json', JSON.stringify({ ...OWN_RECORD, ...change }))
    await expectRefusal(message)
  })

  it('for an id of the catalogue', async () => {
    put('own.json', JSON.stringify({ ...OWN_RECORD, id: 'provider_openai' }))
    await expectRefusal(
      /^config\/providers\/own\.json: id: provider_openai is already used in the built-in catalogue$/,
    )
  })

  it('for an id of another file, and names that file too', async () => {
    put('a.json', JSON.stringify(OWN_RECORD))
    put('b.yaml', stringify(OWN_RECORD))
    await expectRefusal(
      /^config\/providers\/b\.yaml: id: provider_team_gateway is already used in config\/providers\/a\.json$/,
    )
  })

  it.each([
    ['own.json', '{', /own\.json: is not valid JSON/],
    ['own.json', '{"a":1,}', /own\.json: is not valid JSON at line 1, column 8/],
    ['own.json', '', /is not valid JSON/],
    ['own.json', 'null', /expected object/],
    ['own.json', '[]', /expected object/],
    ['own.json', '{"id":"a","name":"x","id":"b"}', /has two members named "id"/],
    ['own.json', '{"id":"a","x":[{"y":1,"\\u0079":2}]}', /has two members named "y"/],
    ['own.json', '{"__proto__":{"admin":true}}', /__proto__/],
    ['own.json', '['.repeat(20) + ']'.repeat(20), /nests deeper/],
    ['own.json', '['.repeat(60_000), /is not valid JSON/],
    ['own.yaml', 'a: 1\na: 2\n', /own\.yaml: is not valid YAML at line 2, column 1/],
    ['own.yaml', 'a: &x 1\nb: *x\n', /uses an alias/],
    ['own.yaml', 'a: &a [x]\nb: &b [*a,*a]\nc: [*b,*b]\n', /uses an alias/],
    ['own.yaml', 'base: &b {x: 1}\n<<: *b\n', /uses an alias/],
    ['own.yaml', 'a: !!js/function "x"\n', /is not valid YAML/],
    ['own.yaml', 'a: !custom x\n', /is not valid YAML/],
    ['own.yaml', 'a: !!binary aGk=\n', /uses a tag/],
    ['own.yaml', '? [a, b]\n: 1\n', /is not valid YAML/],
    ['own.yaml', '--- {}\n--- {}\n', /is not valid YAML/],
    ['own.yaml', '__proto__: {admin: true}\n', /__proto__/],
    ['own.yaml', '['.repeat(60_000), /is not valid YAML/],
    ['own.yaml', '', /expected object/],
    ['own.yaml', 'a: [\n', /is not valid YAML/],
  ])('%s, case %#', async (name, text, message) => {
    put(name, text)
    await expectRefusal(message)
  })

  it('when it is not UTF-8', async () => {
    writeFileSync(join(folder, 'own.json'), Buffer.from([0x7b, 0xff, 0x7d]))
    await expectRefusal(/own\.json: is not UTF-8/)
  })

  it('when it is larger than 64 KiB', async () => {
    put('own.json', `{"a":"${'x'.repeat(64 * 1024)}"}`)
    await expectRefusal(/own\.json: is larger than 64 KiB/)
  })

  it('when there are more than 200 files', async () => {
    for (let i = 0; i < 201; i++) put(`own-${i}.json`, '{}')
    await expectRefusal(/config\/providers: has more than 200/)
  })

  it('when it is a symbolic link, whether its target is in the folder or not', async () => {
    writeFileSync(join(root, 'elsewhere.json'), JSON.stringify(OWN_RECORD))
    symlinkSync('../../elsewhere.json', join(folder, 'own.json'))
    await expectRefusal(/own\.json: is a symbolic link/)
  })

  it('when the folder is a symbolic link', async () => {
    put('own.json', JSON.stringify(OWN_RECORD))
    renameSync(folder, join(root, 'elsewhere'))
    symlinkSync(join(root, 'elsewhere'), folder)
    await expectRefusal(/config\/providers: is a symbolic link/)
  })

  it('when the folder is a file', async () => {
    rmSync(folder, { recursive: true })
    writeFileSync(folder, '')
    await expectRefusal(/config\/providers: is not a folder/)
  })

  it('when it is a named pipe, without waiting for a writer', async () => {
    execFileSync('mkfifo', [join(folder, 'own.json')])
    await expectRefusal(/own\.json: is not a regular file/)
  })

  it('when other users may write it', async () => {
    put('own.json', JSON.stringify(OWN_RECORD))
    chmodSync(join(folder, 'own.json'), 0o666)
    await expectRefusal(/own\.json: is writable by other users/)
  })

  it('without repeating a secret in it', async () => {
    const token = 'sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789'
    put('own.json', JSON.stringify({ ...OWN_RECORD, name: token }))
    await expectRefusal(/^((?!sk-ant).)*name: looks like a secret((?!sk-ant).)*$/)
    put('own.json', `{"name": ${token}}`)
    await expectRefusal(/^((?!sk-ant).)*$/)
  })
})

describe('an unknown id', () => {
  it.each([
    ['provider_opnai', 'provider_openai'],
    ['openai', 'provider_openai'],
    ['ollama', 'provider_local_ollama'],
    ['provider_antropic', 'provider_anthropic'],
  ])('such as %s leads to the hint %s', (typed, meant) => {
    expect(() => findProvider(CATALOGUE, typed)).toThrow(
      expect.objectContaining({
        code: 'not_found',
        message: `unknown model provider: ${typed}`,
        hint: expect.stringContaining(meant),
      }),
    )
  })

  it('unlike all others only leads to the list', () => {
    expect(() => findProvider(CATALOGUE, `\u001b[31m${'x'.repeat(5000)}`)).toThrow(
      expect.objectContaining({ hint: 'list all:  craik provider list' }),
    )
  })
})

function load() {
  return loadProviders(homeAt(root))
}

function put(name: string, text: string): void {
  writeFileSync(join(folder, name), text, { mode: 0o600 })
}

async function expectRefusal(message: RegExp): Promise<void> {
  await expect(load()).rejects.toMatchObject({
    code: 'invalid_config',
    message: expect.stringMatching(message),
  })
}
