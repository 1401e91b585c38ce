/** Sandbox backend records: behaviors 18–22 of the original Craik. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  BUILT_IN_BACKENDS,
  findBackend,
  parseBackendRecord,
  type SandboxBackendInput,
} from '../../src/sandboxes/backend-records.ts'

const KINDS = {
  local_process: 'process',
  container: 'container',
  remote_shell: 'remote',
  browser_tool: 'browser',
} as const

function record(changes: Partial<SandboxBackendInput> = {}): SandboxBackendInput {
  return {
    id: 'sandbox_fixture',
    name: 'Fixture',
    kind: 'local_process',
    isolation_mode: 'process',
    capabilities: [
      {
        name: 'shell.execute',
        operations: ['run'],
        grant_required: true,
        receipt_required: true,
        description: 'run a registered command',
      },
    ],
    policy: {
      policy_envelope_required: true,
      capability_grant_required: true,
      receipt_required: true,
      redaction_required: true,
      secrets_in_config_allowed: false,
    },
    docs: ['docs/reference/registered-commands.md'],
    created_at: '2026-03-01T12:00:00Z',
    ...changes,
  }
}

describe('18: kinds', () => {
  it.each(Object.entries(KINDS))('%s is accepted with isolation %s', (kind, isolation_mode) => {
    const provided = record({ kind: kind as keyof typeof KINDS, isolation_mode })
    expect(parseBackendRecord(provided)).toMatchObject({
      kind,
      isolation_mode,
      schema: 'craik.sandbox_backend',
    })
  })

  it('of the built-in records are these four, and each record is valid and found by its id', () => {
    expect(BUILT_IN_BACKENDS.map(({ id }) => id)).toEqual([
      'sandbox_browser_tool',
      'sandbox_container',
      'sandbox_local_process',
      'sandbox_remote_shell',
    ])
    for (const shipped of BUILT_IN_BACKENDS) {
      expect(parseBackendRecord(shipped)).toEqual(shipped)
      expect(findBackend(shipped.id)).toBe(shipped)
    }
    expect(findBackend('sandbox_unknown')).toBeUndefined()
  })

  it('that are unknown are refused', () => {
    expect(() => parseBackendRecord({ ...record(), kind: 'microvm' })).toThrow(/kind/)
  })
})

describe('19: isolation', () => {
  it('of another kind is refused for every pair', () => {
    for (const kind of Object.keys(KINDS) as (keyof typeof KINDS)[])
      for (const isolation_mode of Object.values(KINDS).filter((mode) => mode !== KINDS[kind]))
        expect(
          () => parseBackendRecord(record({ kind, isolation_mode })),
          `${kind} ${isolation_mode}`,
        ).toThrow(/isolation_mode/)
  })

  it('cannot be none, because a record never promises the weakest isolation', () => {
    expect(() => parseBackendRecord({ ...record(), isolation_mode: 'none' })).toThrow(/isolation_mode/)
  })
})

describe('20: policy', () => {
  it.each([
    'policy_envelope_required',
    'capability_grant_required',
    'receipt_required',
    'redaction_required',
  ])('%s is mandatory: it can be neither false nor missing', (flag) => {
    const { policy } = record()
    expect(() => parseBackendRecord({ ...record(), policy: { ...policy, [flag]: false } })).toThrow(flag)
    expect(() => parseBackendRecord({ ...record(), policy: { ...policy, [flag]: undefined } })).toThrow(flag)
  })

  it('never allows secrets in the configuration', () => {
    const policy = { ...record().policy, secrets_in_config_allowed: true }
    expect(() => parseBackendRecord({ ...record(), policy })).toThrow(/secrets_in_config_allowed/)
  })
})

describe('21: capabilities', () => {
  const [capability] = record().capabilities

  it.each(['grant_required', 'receipt_required'])('%s is mandatory', (flag) => {
    const capabilities = [{ ...capability, [flag]: false }]
    expect(() => parseBackendRecord({ ...record(), capabilities })).toThrow(flag)
  })

  it('must contain at least one capability, each with at least one operation', () => {
    expect(() => parseBackendRecord(record({ capabilities: [] }))).toThrow(/capabilities/)
    expect(() => parseBackendRecord(record({ capabilities: [{ ...capability!, operations: [] }] }))).toThrow(
      /operations/,
    )
  })
})

describe('22: metadata', () => {
  it.each([
    'secret',
    'api_key',
    'apikey',
    'OPENAI_API_KEY',
    'password',
    'auth_token',
    'credential',
    'provider_id',
    'providerId',
  ])('with the key %s is refused at any depth', (key) => {
    expect(() => parseBackendRecord(record({ metadata: { [key]: 'x' } }))).toThrow(/metadata/)
    expect(() => parseBackendRecord(record({ metadata: { list: [{ deep: { [key]: 'x' } }] } }))).toThrow(
      /metadata/,
    )
  })

  it('with a secret as a value is refused, and the error does not repeat the secret', () => {
    const value = `ghp_${'a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8'}`
    expect(() => parseBackendRecord(record({ metadata: { note: value } }))).toThrow(/looks like a secret/)
    expect(() => parseBackendRecord(record({ metadata: { note: value } }))).not.toThrow(value)
  })

  it('without secrets is stored unchanged', () => {
    const metadata = { region: 'eu-1', size: 3, nested: { ok: true } }
    expect(parseBackendRecord(record({ metadata })).metadata).toEqual(metadata)
  })

  it('cannot add a field that the schema does not define', () => {
    const known = new Set(Object.keys(parseBackendRecord(record())))
    fc.assert(
      fc.property(
        fc.string({ minLength: 1 }).filter((key) => !known.has(key) && key !== '__proto__'),
        (key) => {
          expect(() => parseBackendRecord({ ...record(), [key]: 1 })).toThrow()
        },
      ),
    )
  })
})
