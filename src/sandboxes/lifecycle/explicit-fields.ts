/** The fields that a request for a container must set. A missing field is denied, never guessed. */
import type { BackendName, NETWORKS } from '../backend.ts'
import { OPERATIONS } from '../operations.ts'
import { sandboxLinks } from './decide-sandbox.ts'
import { createTarget } from './sandbox-grants.ts'
import type { SandboxRecords } from './sandbox-records.ts'
import type { BeginCreateInput, Denied } from './tokens.ts'

/** The fields of a request that can be reason enough to refuse it. */
export interface ExplicitFields {
  /** `null` when the request did not set it. */
  readonly network: (typeof NETWORKS)[number] | null
  /**
   * The number of mounts, and how many of them are writable. `null` when the request did not set it, not even to an
   * empty list.
   */
  readonly mounts: { readonly all: number; readonly writable: number } | null
  readonly image: boolean
  readonly environment: boolean
  readonly workspace: boolean
}

export const EXPLICIT_FIELD_RULES = {
  'sandbox.request_incomplete': 'a request for a container must set every field',
  'sandbox.network': 'sandboxes cannot join a network',
  'sandbox.mount': 'mounts are read-only; only the workspace is writable',
} as const

export interface ExplicitFieldRefusal {
  readonly rule: keyof typeof EXPLICIT_FIELD_RULES
  /** The names of the fields in the API. */
  readonly fields: readonly string[]
}

/** Returns the first problem of a request, or `undefined` when policy may decide. No grant allows any of these. */
export function refuseExplicitFields(
  backend: BackendName,
  fields: ExplicitFields | undefined,
): ExplicitFieldRefusal | undefined {
  const missing = backend === 'docker' ? missingFields(fields) : []
  if (missing.length > 0) return { rule: 'sandbox.request_incomplete', fields: missing }
  if ((fields?.network ?? 'none') !== 'none') return { rule: 'sandbox.network', fields: ['network'] }
  if ((fields?.mounts?.writable ?? 0) > 0) return { rule: 'sandbox.mount', fields: ['mounts'] }
  return undefined
}

function missingFields(fields: ExplicitFields | undefined): string[] {
  const reply: readonly (readonly [string, boolean])[] = [
    ['network', (fields?.network ?? null) !== null],
    ['mounts', (fields?.mounts ?? null) !== null],
    ['container.image', fields?.image === true],
    ['environment', fields?.environment === true],
    ['workspace', fields?.workspace === true],
  ]
  return reply.filter(([, isSaid]) => !isSaid).map(([field]) => field)
}

/** Writes the denial. The request alone is enough to refuse it, so policy is not evaluated and no grant allows it. */
export async function refuseRequest(
  { tables, sealer }: SandboxRecords,
  input: BeginCreateInput,
  { rule, fields }: ExplicitFieldRefusal,
): Promise<Denied> {
  const { capability, operation } = OPERATIONS.create
  const request = { operator: input.operator, capability, operation, target: createTarget(input.name) }
  const ref = await sealer.append(tables, {
    kind: 'denial',
    phase: 'point',
    status: 'denied',
    ...request,
    links: sandboxLinks(input),
    metadata: { denied_kind: 'sandbox_action', fields: [...fields] },
    decision: { effect: 'deny', rule, missing: [], replayable: false },
  })
  return {
    effect: 'denied',
    ref,
    asked: { ...request, scope: {} },
    evaluation: { rule, missing: [], grantOutcome: 'not_required', grantWouldHelp: false },
    fields,
  }
}
