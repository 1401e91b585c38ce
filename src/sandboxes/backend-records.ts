/** Describes each kind of sandbox backend: its isolation, its capabilities and its mandatory controls. */
import { z } from 'zod'
import { capabilityName, parseInput, reference, refuseSecrets } from '../policy/decision-request.ts'
import { isSecretKey } from '../receipts/redaction/redact.ts'
import { BACKEND_KINDS, type BackendKind, type Isolation } from './backend.ts'

/** The isolation of a kind is fixed. A record that claims another one is refused. */
const ISOLATION_OF: Readonly<Record<BackendKind, Isolation>> = {
  local_process: 'process',
  container: 'container',
  remote_shell: 'remote',
  browser_tool: 'browser',
}

const text = z.string().min(1).max(500)

const capability = z.strictObject({
  name: capabilityName,
  operations: z.array(reference).min(1).max(20),
  grant_required: z.literal(true),
  receipt_required: z.literal(true),
  description: text,
})

const policy = z.strictObject({
  policy_envelope_required: z.literal(true),
  capability_grant_required: z.literal(true),
  receipt_required: z.literal(true),
  redaction_required: z.literal(true),
  secrets_in_config_allowed: z.literal(false),
  notes: z.array(text).max(20).default([]),
})

/** A backend record describes where something runs. It must not name the provider or a secret of the request. */
const metadata = z.record(z.string(), z.json()).superRefine((value, context) => {
  for (const path of findForbiddenKeys(value, [])) {
    context.addIssue({ code: 'custom', path, message: 'must not name a secret or a provider' })
  }
})

const sandboxBackendRecord = z
  .strictObject({
    schema: z.literal('craik.sandbox_backend').default('craik.sandbox_backend'),
    version: z.literal('0.1.0').default('0.1.0'),
    id: reference,
    name: text,
    kind: z.enum(BACKEND_KINDS),
    isolation_mode: z.enum(['process', 'container', 'remote', 'browser']),
    capabilities: z.array(capability).min(1).max(20),
    policy,
    runtime_ref: reference.nullable().default(null),
    metadata: metadata.default({}),
    docs: z.array(reference).min(1).max(20),
    created_at: z.iso.datetime(),
  })
  .superRefine(({ kind, isolation_mode }, context) => {
    if (isolation_mode === ISOLATION_OF[kind]) return
    context.addIssue({
      code: 'custom',
      path: ['isolation_mode'],
      message: `must be ${ISOLATION_OF[kind]} for a ${kind} backend`,
    })
  })

export type SandboxBackendRecord = z.infer<typeof sandboxBackendRecord>
export type SandboxBackendInput = z.input<typeof sandboxBackendRecord>

export function parseBackendRecord(input: unknown): SandboxBackendRecord {
  const record = parseInput(sandboxBackendRecord, input, 'the sandbox backend')
  refuseSecrets(record, 'the sandbox backend')
  return record
}

function findForbiddenKeys(value: unknown, at: readonly string[]): string[][] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, member]) => {
    const here = [...at, key]
    const forbidden = isSecretKey(key) || /provider_?id|secret|token|api_?key|password|credential/i.test(key)
    return forbidden ? [here] : findForbiddenKeys(member, here)
  })
}

const CONTROLS = {
  policy_envelope_required: true,
  capability_grant_required: true,
  receipt_required: true,
  redaction_required: true,
  secrets_in_config_allowed: false,
  notes: [],
} as const

const backendRecord = (
  id: string,
  name: string,
  kind: BackendKind,
  [capabilityId, operation, description]: readonly [string, string, string],
): SandboxBackendRecord => ({
  schema: 'craik.sandbox_backend',
  version: '0.1.0',
  id,
  name,
  kind,
  isolation_mode: ISOLATION_OF[kind] as SandboxBackendRecord['isolation_mode'],
  capabilities: [
    {
      name: capabilityId,
      operations: [operation],
      grant_required: true,
      receipt_required: true,
      description,
    },
  ],
  policy: { ...CONTROLS, notes: [] },
  runtime_ref: kind === 'local_process' ? 'runtime:bubblewrap' : null,
  metadata: {},
  docs: ['docs/reference/registered-commands.md'],
  created_at: '2026-01-01T00:00:00.000Z',
})

/** The four backends that come with Craik, sorted by id. */
export const BUILT_IN_BACKENDS: readonly SandboxBackendRecord[] = [
  backendRecord('sandbox_browser_tool', 'Browser or tool', 'browser_tool', [
    'browser.use',
    'use',
    'act through a browser or tool; results are redacted',
  ]),
  backendRecord('sandbox_container', 'Container', 'container', [
    'container.run',
    'run',
    'run a registered command in a container',
  ]),
  backendRecord('sandbox_local_process', 'Local process', 'local_process', [
    'shell.execute',
    'run',
    'run a registered command in its own namespaces on this machine',
  ]),
  backendRecord('sandbox_remote_shell', 'Remote shell', 'remote_shell', [
    'shell.remote.execute',
    'run',
    'run a registered command on another machine',
  ]),
]

export function findBackend(id: string): SandboxBackendRecord | undefined {
  return BUILT_IN_BACKENDS.find((record) => record.id === id)
}
