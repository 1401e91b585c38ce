/**
 * A sandbox's record in the store. It is sealed, so that Craik detects an edit in the database before it follows the
 * record.
 */
import { z } from 'zod'
import { CraikError } from '../../errors.ts'
import type { SandboxId } from '../../lib/ids.ts'
import { reference } from '../../policy/decision-request.ts'
import {
  BACKEND_NAMES,
  CONTAINER_RUNTIMES,
  CONTAINER_STATES,
  CONTAINER_TRANSPORTS,
  CREDENTIAL_MODES,
  ENFORCEMENTS,
  ISOLATIONS,
  type LimitSpec,
} from '../backend.ts'
import { isHarnessId, MAX_HARNESSES } from '../harness-package.ts'
import { MAX_VOLUMES, volume } from '../volumes/volume.ts'
import { SANDBOX_STATES } from './transitions.ts'

/** The limit of one home. The host's own limits are lower. */
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
  /** Sandboxes can only read these. */
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
  /** The ids of the harness packages that are mounted. A container has those of its image in `container`. */
  harnesses: z.array(z.string().refine(isHarnessId)).max(MAX_HARNESSES).default([]),
  credentials: z.enum(CREDENTIAL_MODES).default('none'),
  /** `null` for the user that Craik runs as. */
  hostUser: z.strictObject({ uid, gid: uid }).nullable(),
  /** `null` for every other kind of instance. */
  container: z
    .strictObject({
      image: z.string().regex(/^sha256:[0-9a-f]{64}$/),
      imageName: z.string().min(1).max(300),
      runtime: z.enum(CONTAINER_RUNTIMES),
      line: z.enum(CONTAINER_TRANSPORTS),
      state: z.enum(CONTAINER_STATES),
      engine: z.string().min(1).max(200),
      harnesses: z.array(z.string().refine(isHarnessId)).max(MAX_HARNESSES).readonly().optional(),
    })
    .nullable()
    .default(null),
})

/** The running instance, and the isolation and limits that it has. */
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

/** The part of a begin receipt that the end receipt repeats. */
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
  /** The user that was allocated for this sandbox only; `null` when it has none of its own. */
  allocated_uid: uid.nullable(),
  /** The grants that came with the sandbox, by capability. They are revoked with it. */
  owner_grants: z.record(z.string(), reference),
  /** The transition in progress, with its begin receipt. Only the recovery of the sandbox closes it. */
  pending: z
    .strictObject({
      begin_id: reference,
      begin,
      owner,
      /** The state in which the transition began. */
      from: z.enum(SANDBOX_STATES).nullable().default(null),
    })
    .nullable(),
  /** The times after which Craik stops the sandbox, and removes it once it is stopped. `null` means never. */
  ends: z
    .strictObject({ idle_ms: span, lifetime_ms: span, keep_ms: span })
    .default({ idle_ms: null, lifetime_ms: null, keep_ms: null }),
  /** Written about once a minute while the sandbox is used. A crash loses only the time since the last write. */
  active_at_ms: z.int().nullable().default(null),
  /** The time when its instance last started, and the time when it ended. */
  started_at_ms: z.int().nullable().default(null),
  stopped_at_ms: z.int().nullable().default(null),
  /** The epoch of the boundary that counts now, or counted last. */
  epoch: reference.nullable(),
  notice: z.string().max(500).nullable(),
  /** No job with an id up to this one begins, because the records that would show whether it ran before are removed. */
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
/** The part of a sandbox operation's begin receipt that its end receipt repeats. */
export type RecordedBegin = PendingBegin['begin']

export function parseSandbox(document: string): SandboxRecord {
  const parsed = sandboxRecord.safeParse(JSON.parse(document))
  if (!parsed.success) throw new CraikError('store_damaged', 'the record of a sandbox is unreadable')
  return parsed.data as SandboxRecord
}

export function damagedSandboxError(id: string, why: string): CraikError {
  return new CraikError('tampered', `the record of sandbox ${id} ${why}`, {
    hint: `check the log:  craik receipts verify   or delete the sandbox with its disk:  craik sandbox delete ${id}   (nothing was done)`,
  })
}

/** Returns whether an error says that a record is not as Craik wrote it. */
export function isDamage(error: unknown): boolean {
  return error instanceof CraikError && (error.code === 'tampered' || error.code === 'store_damaged')
}

export function unknownSandbox(idOrName: string): CraikError {
  return new CraikError('not_found', `unknown sandbox: ${idOrName}`, {
    hint: 'list sandboxes:  craik sandbox list',
  })
}
