/** A sandbox as the store keeps it: sealed, so that an edit in the database shows before anything follows it. */
import { z } from 'zod'
import { CraikError } from '../../errors.ts'
import type { SandboxId } from '../../lib/ids.ts'
import { reference } from '../../policy/decision-request.ts'
import {
  BACKEND_NAMES,
  CONTAINER_LINES,
  CONTAINER_RUNTIMES,
  CONTAINER_STATES,
  CREDENTIAL_MODES,
  ENFORCEMENTS,
  ISOLATIONS,
  type LimitSpec,
} from '../backend.ts'
import { isHarnessId, MAX_HARNESSES } from '../harness-package.ts'
import { MAX_VOLUMES, volume } from '../volumes/volume.ts'
import { SANDBOX_STATES } from './transitions.ts'

/** Of one home; what a machine can hold ends sooner. */
export const MAX_SANDBOXES = 256

const bytes = z.int().nonnegative()
const enforcement = z.enum(ENFORCEMENTS)
export const uid = z.int().min(0).max(4_294_967_294)
const span = z.int().positive().nullable()

export const owner = z.strictObject({
  bootId: z.string().max(100),
  pid: bytes,
  startedAt: z.string().max(100),
  pidNamespace: z.string().max(100),
})

export const spec = z.strictObject({
  isolation: z.enum(ISOLATIONS),
  workspace: z.discriminatedUnion('mode', [
    z.strictObject({ mode: z.literal('copy') }),
    z.strictObject({ mode: z.literal('in-place'), folder: z.string().min(1).max(4096) }),
  ]),
  /** Read-only. */
  mounts: z
    .array(z.strictObject({ folder: z.string().min(1).max(4096), at: z.string().regex(/^\/mnt\/[^/]+$/) }))
    .default([]),
  volumes: z.array(volume).max(MAX_VOLUMES).default([]),
  limits: z.strictObject({
    memoryBytes: bytes,
    processes: bytes,
    cpuMillis: bytes.optional(),
    diskBytes: bytes.optional(),
  }),
  environment: z.record(z.string(), z.string()),
  /** Ids of the agents' command lines that it is shown; of a container, those are in its image. */
  harnesses: z.array(z.string().refine(isHarnessId)).max(MAX_HARNESSES).default([]),
  credentials: z.enum(CREDENTIAL_MODES).default('none'),
  /** Null: the one that Craik runs as. */
  hostUser: z.strictObject({ uid, gid: uid }).nullable(),
  /** Of a container; null for every other kind of place. */
  container: z
    .strictObject({
      image: z.string().regex(/^sha256:[0-9a-f]{64}$/),
      imageName: z.string().min(1).max(300),
      runtime: z.enum(CONTAINER_RUNTIMES),
      line: z.enum(CONTAINER_LINES),
      state: z.enum(CONTAINER_STATES),
      engine: z.string().min(1).max(200),
      harnesses: z.array(z.string().refine(isHarnessId)).max(MAX_HARNESSES).readonly().optional(),
    })
    .nullable()
    .default(null),
})

/** What was reached, once it runs. */
export const place = z.strictObject({
  handle: z.record(z.string(), z.union([z.string(), z.number()])),
  isolation: z.enum(ISOLATIONS),
  hostUid: uid,
  enforced: z.strictObject({
    memory: enforcement,
    processes: enforcement,
    cpu: enforcement,
    disk: enforcement,
  }),
})

export const sandboxId = z.string().regex(/^sbx_[0-9A-HJKMNP-TV-Z]{26}$/)

/** What of a begin its end repeats. */
const begin = z.strictObject({
  kind: z.literal('sandbox_action'),
  operator: reference,
  capability: reference,
  operation: reference,
  target: reference,
  links: z.record(z.string(), z.json()),
})

const sandboxRecord = z.strictObject({
  id: sandboxId,
  name: z.string().min(1).max(64),
  backend: z.enum(BACKEND_NAMES),
  state: z.enum(SANDBOX_STATES),
  spec,
  place: place.nullable(),
  operator: reference,
  policy_envelope_id: reference,
  /** The user that was allocated for it alone; null when it has none of its own. */
  allocated_uid: uid.nullable(),
  /** The grants that came with it, by capability; revoked with it. */
  owner_grants: z.record(z.string(), reference),
  /** What is in progress with the sandbox as a whole: its begin, which only its recovery closes. */
  pending: z
    .strictObject({
      begin_id: reference,
      begin,
      owner,
      /** The state in which it began. */
      from: z.enum(SANDBOX_STATES).nullable().default(null),
    })
    .nullable(),
  /** When it is stopped, and, once it is, removed without being told to; null: never. */
  ends: z
    .strictObject({ idle_ms: span, lifetime_ms: span, keep_ms: span })
    .default({ idle_ms: null, lifetime_ms: null, keep_ms: null }),
  /** Written about once a minute while it is used; what was not written is lost in a crash, and nothing else. */
  active_at_ms: z.int().nullable().default(null),
  /** When its place was started last, and when it ended. */
  started_at_ms: z.int().nullable().default(null),
  stopped_at_ms: z.int().nullable().default(null),
  /** Of the boundary that counts now, or counted last. */
  epoch: reference.nullable(),
  notice: z.string().max(500).nullable(),
  /** No job of an id up to this one begins: whether it did before is not kept of each any more. */
  jobs_forgotten_to: reference.nullable().default(null),
  created_at_ms: z.int(),
  updated_at_ms: z.int(),
})

type Parsed = z.infer<typeof sandboxRecord>
export type SandboxRecord = Omit<Parsed, 'id' | 'spec'> & {
  readonly id: SandboxId
  readonly spec: Omit<Parsed['spec'], 'limits'> & { readonly limits: LimitSpec }
}
export type RecordedInstance = NonNullable<SandboxRecord['place']>
export type PendingBegin = NonNullable<SandboxRecord['pending']>
/** The begin of a sandbox operation, as far as its end repeats it. */
export type RecordedBegin = PendingBegin['begin']

export function parseSandbox(document: string): SandboxRecord {
  const parsed = sandboxRecord.safeParse(JSON.parse(document))
  if (!parsed.success) throw new CraikError('store_damaged', 'cannot parse the record of a sandbox')
  return parsed.data as SandboxRecord
}

export function damagedSandboxError(id: string, why: string): CraikError {
  return new CraikError('tampered', `the record of sandbox ${id} ${why}`, {
    hint: `nothing was done; check the log:  craik receipts verify   remove it:  craik sandbox delete ${id}`,
  })
}

/** Whether it says that a record is not as Craik wrote it. */
export function isDamage(error: unknown): boolean {
  return error instanceof CraikError && (error.code === 'tampered' || error.code === 'store_damaged')
}

export function unknownSandbox(idOrName: string): CraikError {
  return new CraikError('not_found', `unknown sandbox: ${idOrName}`, {
    hint: 'list them:  craik sandbox list',
  })
}
