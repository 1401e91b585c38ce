/** Tests the schema of provider records. */
import { describe, expect, it } from 'vitest'
import { CATALOGUE } from './provider-catalogue.ts'
import { OWN_RECORD } from './provider-record.fixture.ts'
import { providerRecord } from './provider-record.ts'

describe('the catalogue', () => {
  it.each(CATALOGUE.map((record) => [record.id, record] as const))(
    '%s is valid without changes',
    (_, record) => {
      expect(providerRecord.parse(record)).toEqual(record)
    },
  )

  it('has no duplicate ids', () => {
    expect(new Set(CATALOGUE.map(({ id }) => id)).size).toBe(CATALOGUE.length)
  })
})

describe('a record', () => {
  it('gets its references and defaults', () => {
    expect(providerRecord.parse(OWN_RECORD)).toMatchObject({
      budget_ref: 'budget_provider_team_gateway',
      quota_ref: 'quota_provider_team_gateway',
      runtime_path: null,
      capabilities: [{ grant_required: true }],
    })
  })

  const TOKEN = 'sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789'
  const BASE = OWN_RECORD.metadata
  it.each<[string, Record<string, unknown>, string]>([
    ['an unknown field', { region: 'eu' }, ''],
    ['another schema', { schema: 'craik.other' }, 'schema'],
    ['another version', { version: '0.2.0' }, 'version'],
    ['an id without its prefix', { id: 'openai' }, 'id'],
    ['an id with capitals', { id: 'provider_OpenAI' }, 'id'],
    ['an unknown family', { provider: 'mistral' }, 'provider'],
    ['no modes', { modes: [] }, 'modes'],
    ['an unknown mode', { modes: ['chat', 'video'] }, 'modes.1'],
    ['a mode twice', { modes: ['chat', 'chat'] }, 'modes'],
    ['no capabilities', { capabilities: [] }, 'capabilities'],
    ['a capability in a mode that is not declared', { modes: ['runner'] }, 'capabilities.0.mode'],
    [
      'an unknown capability',
      { capabilities: [{ name: 'model.think', mode: 'chat', description: 'x' }] },
      'capabilities.0.name',
    ],
    [
      'an unknown field of a capability',
      { capabilities: [{ name: 'model.chat', mode: 'chat', description: 'x', price: 1 }] },
      'capabilities.0',
    ],
    ['an unknown boundary', { trust_boundary: 'cloud' }, 'trust_boundary'],
    ['a name in both lists', { config_refs: ['TEAM_URL'], secret_ref_names: ['TEAM_URL'] }, 'config_refs.0'],
    ['a secret’s name among the config refs', { config_refs: ['OPENAI_API_KEY'] }, 'config_refs.0'],
    ['a value among the config refs', { config_refs: ['http://localhost'] }, 'config_refs.0'],
    ['a secret’s value as its name', { secret_ref_names: [TOKEN] }, 'secret_ref_names.0'],
    ['a secret in the name', { name: `gateway ${TOKEN}` }, 'name'],
    ['a secret in the docs', { docs: [`https://docs.example/?key=${TOKEN}`] }, 'docs.0'],
    ['a secret in metadata', { metadata: { ...BASE, note: TOKEN } }, 'metadata.note'],
    ...['secret', 'client_secret', 'token', 'auth_token', 'max_tokens', 'api_key', 'apikey', 'password'].map(
      (name): [string, Record<string, unknown>, string] => [
        `metadata named ${name}`,
        { metadata: { ...BASE, [name]: 'x' } },
        `metadata.${name}`,
      ],
    ),
    ['metadata named credentials', { metadata: { ...BASE, credentials: 1 } }, 'metadata.credentials'],
    ['metadata named private_key', { metadata: { ...BASE, private_key: 'x' } }, 'metadata.private_key'],
    ['metadata named apiKey', { metadata: { ...BASE, apiKey: 'x' } }, 'metadata'],
    ['metadata that nests', { metadata: { ...BASE, headers: { a: 1 } } }, 'metadata.headers'],
    ['metadata with a fraction', { metadata: { ...BASE, weight: 0.5 } }, 'metadata.weight'],
    [
      'too much metadata',
      { metadata: { ...BASE, ...Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`k${i}`, i])) } },
      'metadata',
    ],
    ['a dialect of another family', { metadata: { ...BASE, dialect: 'gemini' } }, 'metadata.dialect'],
    ['no address', { metadata: {} }, 'metadata.base_url'],
    ['plain http', { metadata: { base_url: 'http://models.example.com/v1' } }, 'metadata.base_url'],
    ['user info', { metadata: { base_url: 'https://u:p@models.example.com/v1' } }, 'metadata.base_url'],
    ['an empty user', { metadata: { base_url: 'https://@models.example.com/v1' } }, 'metadata.base_url'],
    ['a query', { metadata: { base_url: 'https://models.example.com/v1?x=1' } }, 'metadata.base_url'],
    ['a slash at the end', { metadata: { base_url: 'https://models.example.com/v1/' } }, 'metadata.base_url'],
    ['an odd address', { metadata: { base_url: 'https://2130706433/v1' } }, 'metadata.base_url'],
    ['a climbing path', { metadata: { base_url: 'https://models.example.com/../v1' } }, 'metadata.base_url'],
    [
      'a local boundary with a remote address',
      { trust_boundary: 'local', metadata: { base_url: 'https://models.example.com/v1' } },
      'metadata.base_url',
    ],
    ['no docs', { docs: [] }, 'docs'],
    ['docs outside the documentation', { docs: ['../../etc/passwd'] }, 'docs.0'],
    ['no instant', { created_at: 'yesterday' }, 'created_at'],
    ['a name of several lines', { name: 'one\ntwo' }, 'name'],
    ['a name of 101 characters', { name: 'x'.repeat(101) }, 'name'],
    ['21 config refs', { config_refs: Array.from({ length: 21 }, (_, i) => `REF_${i}`) }, 'config_refs'],
  ])('is refused with %s, and the error names the field', (_, change, field) => {
    const parsed = providerRecord.safeParse({ ...OWN_RECORD, ...change })
    expect(parsed.error?.issues.map(({ path }) => path.join('.'))).toContain(field)
    expect(JSON.stringify(parsed.error?.issues)).not.toContain(TOKEN)
  })
})
