/** The requests of the API. Each body and query is one schema with its limits, and the type that clients use. */

import { z } from 'zod'
import { API_KEYS, isHeaderSafe } from '../../accounts/api-keys.ts'
import { USER_PROGRAMS } from '../../lib/host-programs.ts'
import { REFERENCE } from '../../lib/ids.ts'
import { API_LIMITS, SANDBOX_NAME, VOLUME_NAME } from './api-constants.ts'

const bytes = (text: string) => Buffer.byteLength(text)
const noNul = (text: string) => !text.includes('\0')

const argv = z
  .array(z.string().refine(noNul, 'must not contain a NUL byte'))
  .min(1)
  .max(API_LIMITS.argvItems)
  .refine((items) => items[0] !== '', 'must name a program')
  .refine(
    (items) => items.reduce((sum, item) => sum + bytes(item) + 1, 0) <= API_LIMITS.argvBytes,
    `is larger than ${API_LIMITS.argvBytes} bytes`,
  )

const environment = z
  .record(
    z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/, 'must be letters, digits and _, at most 128'),
    z.string().refine(noNul, 'must not contain a NUL byte'),
  )
  .refine((names) => Object.keys(names).length <= API_LIMITS.environmentNames, 'has too many names')
  .refine(
    (names) =>
      Object.entries(names).reduce((sum, [name, value]) => sum + bytes(name) + bytes(value) + 2, 0) <=
      API_LIMITS.environmentBytes,
    `is larger than ${API_LIMITS.environmentBytes} bytes`,
  )

const path = z
  .string()
  .min(1, 'must not be empty')
  .refine((text) => bytes(text) <= API_LIMITS.pathBytes, `is larger than ${API_LIMITS.pathBytes} bytes`)
  .refine(noNul, 'must not contain a NUL byte')

const timeoutMs = z.int().min(1).max(API_LIMITS.timeoutMs)
const positive = z.int().min(1)
const signal = z.string().regex(/^SIG[A-Z0-9+]{2,14}$/, 'must be a name such as SIGTERM')
const reference = z.string().regex(REFERENCE, 'must be letters, digits and . _ : / @ -, at most 200')
const columns = z.int().min(1).max(API_LIMITS.columns)

/** A number in a query, in digits. */
const count = z
  .string()
  .regex(/^(0|[1-9][0-9]{0,15})$/, 'must be a whole number')
  .transform(Number)
  .refine(Number.isSafeInteger, 'is too large')
const flag = z.enum(['0', '1']).transform((text) => text === '1')

/** Contains an id or a name. */
export const sandboxParams = z.object({
  id: z.string().regex(SANDBOX_NAME, 'must be the id or name of a sandbox'),
})
export const jobParams = sandboxParams.extend({
  job: z.string().regex(/^job_[0-9A-HJKMNP-TV-Z]{26}$/, 'must be job_ followed by a ULID'),
})
export const processParams = sandboxParams.extend({ pid: count.refine((pid) => pid > 0) })
export const portParams = sandboxParams.extend({ port: count.refine((port) => port > 0 && port < 65_536) })

/** An id or a name. */
const snapshotName = sandboxParams.shape.id
export const snapshotParams = z.object({ id: snapshotName })

const volumeName = z
  .string()
  .regex(VOLUME_NAME, 'must be lower-case letters, digits and -, at most 63 characters')
export const volumeParams = z.object({ name: volumeName })

const optionalBody = <T extends z.ZodRawShape>(shape: T) =>
  z
    .strictObject(shape)
    .nullish()
    .transform((body) => body ?? ({} as z.output<z.ZodObject<T>>))

export const snapshotBody = optionalBody({ name: snapshotName.optional() })
export const forkBody = optionalBody({ name: snapshotName.optional(), from: snapshotName.optional() })
export const restoreBody = z.strictObject({ snapshot: snapshotName })
export const importQuery = z.strictObject({
  name: snapshotName.optional(),
  digest: z
    .string()
    .regex(/^sha256:[0-9a-f]{64}$/, 'must be sha256: followed by 64 hexadecimal digits')
    .optional(),
})
const destination = z.string().min(1).max(API_LIMITS.destinationBytes)
export const exportBody = z.strictObject({
  /** `https://…` or `s3://bucket/key`. */
  destination,
  endpoint: destination.optional(),
  region: z.string().max(64).optional(),
  /** Names of secrets, never their values. */
  access_key_ref: reference.optional(),
  secret_key_ref: reference.optional(),
  session_token_ref: reference.optional(),
  allow_private_address: z.boolean().optional(),
})
export type ExportBody = z.input<typeof exportBody>

export const createBody = z.strictObject({
  name: z.string().regex(SANDBOX_NAME, 'must be letters, digits and . _ -, at most 64').optional(),
  /** Default: the backend of the snapshot, or `process`. */
  backend: z.enum(['process', 'docker']).optional(),
  /** Default: the isolation of the snapshot, or that of the backend, `process` or `container`. */
  isolation: z.enum(['none', 'process', 'container', 'remote', 'browser']).optional(),
  /**
   * Default: a copy. The request for a container must contain this field, and also network, mounts, image and
   * environment.
   */
  workspace: z
    .discriminatedUnion('mode', [
      z.strictObject({ mode: z.literal('copy') }),
      z.strictObject({ mode: z.literal('in-place'), folder: path }),
    ])
    .optional(),
  limits: z
    .strictObject({
      memory_bytes: positive.optional(),
      processes: positive.optional(),
      cpu_millis: positive.optional(),
      disk_bytes: positive.optional(),
    })
    .default({}),
  environment: environment.optional(),
  /** The agent CLIs of the sandbox, by name. Default: none. */
  harnesses: z
    .array(z.string().regex(/^[a-z]+(?:-[a-z]+){0,4}$/, 'must be the name of a harness, such as codex'))
    .max(16)
    .optional(),
  /** The host logins that the sandbox receives. Default: none. */
  credentials: z.enum(['broker', 'forward', 'none']).optional(),
  /** Craik denies every value except `none`. */
  network: z.enum(['none', 'restricted', 'bridge']).optional(),
  /** Other folders that the sandbox can read, each at `/mnt/NAME`. Craik denies a writable one. */
  mounts: z
    .array(z.strictObject({ folder: path, at: path, mode: z.enum(['read_only', 'read_write']) }))
    .max(API_LIMITS.mounts)
    .optional(),
  /** Craik's volumes, which outlive the sandbox, each at a path in the sandbox home. */
  volumes: z
    .array(z.strictObject({ name: volumeName, at: path }))
    .max(API_LIMITS.volumes)
    .optional(),
  container: z
    .strictObject({
      /** `craik` means Craik's own image. */
      image: z.string().min(1).max(256).optional(),
      runtime: z.enum(['runc', 'runsc']).optional(),
      line: z.enum(['socket', 'relay']).optional(),
    })
    .optional(),
  policy_envelope_id: reference.optional(),
  /** The id or name of a snapshot whose disk the sandbox gets. */
  from: snapshotName.optional(),
  /** Null means never. A missing field gets its default. */
  ends: z
    .strictObject({
      idle_ms: positive.nullable().optional(),
      lifetime_ms: positive.nullable().optional(),
      keep_ms: positive.nullable().optional(),
    })
    .default({}),
})
type AnyCreateBody = z.input<typeof createBody>
/** The request for a container must contain every field, except for those that a snapshot provides. */
export type CreateBody =
  | (AnyCreateBody & { readonly backend?: 'process'; readonly from?: undefined })
  | (AnyCreateBody & { readonly from: string })
  | (AnyCreateBody &
      Required<Pick<AnyCreateBody, 'workspace' | 'environment' | 'network' | 'mounts'>> & {
        readonly backend: 'docker'
        readonly container: { readonly image: string }
      })

/** No response or error repeats the values. */
export const keysBody = z.strictObject({
  keys: z.strictObject(
    Object.fromEntries(
      API_KEYS.map(({ name }) => [name, z.string().refine(isHeaderSafe, 'is not a valid key').optional()]),
    ),
  ),
})
export interface KeysBody {
  readonly keys: Readonly<Record<string, string>>
}

/** The paths, from the caller's PATH, of programs that the supervisor does not have. */
export const programsBody = z.strictObject({
  programs: z.partialRecord(z.enum(USER_PROGRAMS), z.array(z.string().startsWith('/').max(4096)).max(8)),
})

export const stopBody = z
  .strictObject({
    /** The time that its jobs have to exit after SIGTERM. */
    grace_ms: z.int().min(0).max(API_LIMITS.graceMs).optional(),
  })
  .nullish()
  .transform((body) => body ?? {})
export type StopBody = z.output<typeof stopBody>

const runnable = {
  argv: argv.optional(),
  /** A registered command, instead of argv. */
  command_ref: reference.optional(),
  cwd: path.optional(),
  env: environment.optional(),
  timeout_ms: timeoutMs.optional(),
}
type Runnable = { readonly argv?: unknown; readonly command_ref?: unknown }
const hasOneCommand = (spec: Runnable) => (spec.argv === undefined) !== (spec.command_ref === undefined)
const NAMED = { error: 'must set either argv or command_ref' }

export const execBody = z
  .strictObject({
    ...runnable,
    /** The client chooses it, so that a retry finds the job of the first request. */
    job_id: jobParams.shape.job.optional(),
    stdin: z.string().max(API_LIMITS.bufferedInputBytes).optional(),
    stdin_encoding: z.enum(['utf8', 'base64']).default('utf8'),
  })
  .refine(hasOneCommand, NAMED)
export type ExecRequestBody = z.input<typeof execBody>

const execJob = z.strictObject({
  kind: z.literal('exec'),
  ...runnable,
  stdin: z.boolean().optional(),
  max_output_bytes: positive.max(API_LIMITS.outputBytes).optional(),
  /**
   * Craik ends the job when no client has read its output or written its input for this long. Without it, the job
   * continues.
   */
  ends_when_left_ms: timeoutMs.min(1_000).optional(),
})
const terminalJob = z.strictObject({
  kind: z.literal('terminal'),
  ...runnable,
  cols: columns,
  rows: columns,
  term: z
    .string()
    .regex(/^[A-Za-z0-9._+-]{1,64}$/)
    .optional(),
})
export const jobBody = z.union([
  z.discriminatedUnion('kind', [execJob, terminalJob]).refine(hasOneCommand, NAMED),
  z.discriminatedUnion('kind', [
    z.strictObject({ kind: z.literal('tar-in'), path }),
    z.strictObject({ kind: z.literal('tar-out'), path }),
  ]),
])
export type JobRequestBody = z.input<typeof jobBody>

export const outputQuery = z.strictObject({ after: count.default(0) })
export const inputQuery = z
  .strictObject({
    offset: count,
    end: flag.default(false),
    turn: z
      .string()
      .regex(/^[A-Za-z0-9_-]{1,64}$/, 'must be letters, digits, _ and -, at most 64')
      .optional(),
    take: flag.default(false),
  })
  .refine(({ turn, take }) => turn !== undefined || !take, 'take requires turn')
  .transform(({ turn, take, ...part }) => ({
    ...part,
    ...(turn !== undefined && { turn: { id: turn, take } }),
  }))
export const ackBody = z.strictObject({ position: z.int().min(0) })
export const signalBody = z.strictObject({ signal })
export const resizeBody = z.strictObject({ cols: columns, rows: columns })

export const readQuery = z.strictObject({ path, offset: count.default(0), length: count.optional() })
/** An upload has one receipt, like a job, so its id has the form of a job id. */
const uploadId = jobParams.shape.job
export const writeQuery = z.strictObject({
  path,
  upload: uploadId,
  offset: count.default(0),
  bytes: count,
  mode: z
    .string()
    .regex(/^[0-7]{3,4}$/, 'must be octal digits such as 644')
    .default('644')
    .transform((digits) => Number.parseInt(digits, 8)),
})
export const uploadQuery = z.strictObject({ upload: uploadId })
export const pathQuery = z.strictObject({ path })
export const listQuery = z.strictObject({
  path,
  after: path.optional(),
  limit: count
    .refine(
      (limit) => limit > 0 && limit <= API_LIMITS.listEntries,
      `must be from 1 to ${API_LIMITS.listEntries}`,
    )
    .default(API_LIMITS.listEntries),
})
export const watchQuery = z.strictObject({ path, recursive: flag.default(false), after: count.default(0) })
export const moveBody = z.strictObject({ from: path, to: path })
export const removeBody = z.strictObject({ path, recursive: z.boolean().default(false) })
export const mkdirBody = z.strictObject({ path, parents: z.boolean().default(false) })
export const eventsQuery = z.strictObject({ follow: flag.default(false) })
