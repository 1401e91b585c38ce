/**
 * The responses that a sidecar may send. The sandbox is hostile, so every text and number has a limit, and unknown
 * fields are left out. JSON has no `undefined`, so the transforms below leave a missing field out.
 */
import { z } from 'zod'
import { CraikError, type ErrorCode } from '../../errors.ts'
import { REFERENCE } from '../../lib/ids.ts'
import {
  type FileList,
  type FileStat,
  type Hello,
  JOB_OUTCOMES,
  type JobResult,
  type JobStatus,
  LIMITS,
  type Metrics,
  type ProcessInfo,
  SIDECAR_ERROR_CODES,
  type SidecarErrorCode,
  type Upload,
} from '../../sidecar/protocol.ts'

const count = z.int().min(0)
const text = (max: number) => z.string().max(max)
/** One word of printable ASCII, which Craik shows to the user unchanged. */
const word = (max: number) => z.string().regex(new RegExp(`^[\\x21-\\x7e]{1,${max}}$`))
const path = z
  .string()
  .min(1)
  .max(LIMITS.pathBytes)
  .refine((value) => !value.includes('\0'))
/** The name of a signal, such as `SIGTERM`. */
const signalName = z.string().regex(/^SIG[A-Z0-9+]{1,12}$/)

/**
 * Stops at the first invalid element. zod's own arrays collect every error of each element: for 32,000 empty elements
 * that takes 0.3 s on the supervisor's event loop.
 */
function list<T>(element: z.ZodType<T>, max: number) {
  return z
    .array(z.unknown())
    .max(max)
    .transform((values, context): T[] => {
      const elements: T[] = []
      for (const value of values) {
        const { data, error } = element.safeParse(value)
        if (error !== undefined) {
          context.addIssue({ code: 'custom', path: [elements.length, ...(error.issues[0]?.path ?? [])] })
          return z.NEVER
        }
        elements.push(data as T)
      }
      return elements
    })
}

export const helloSchema = z.object({
  protocol: count,
  version: word(64),
  instance: word(64),
  startedAtMs: count,
  home: path,
  workspace: path,
  gatewayPort: count.max(65_535),
  pty: z.boolean(),
}) satisfies z.ZodType<Hello>

export const jobResultSchema: z.ZodType<JobResult> = z
  .object({
    outcome: z.enum(JOB_OUTCOMES),
    exitCode: count.max(255).nullable(),
    signal: signalName.nullable(),
    error: text(300).transform(printable).optional(),
    stdoutBytes: count,
    stderrBytes: count,
    stdinBytes: count,
    durationMs: count,
  })
  .transform(({ error, ...rest }) => (error === undefined ? rest : { ...rest, error }))

export const jobStatusSchema: z.ZodType<JobStatus> = z
  .object({
    id: z.string().regex(REFERENCE),
    kind: z.enum(['exec', 'terminal', 'tar-in', 'tar-out']),
    state: z.enum(['running', 'ended']),
    pid: count.nullable(),
    startedAtMs: count,
    first: count,
    position: count,
    inputOffset: count,
    inputEnded: z.boolean(),
    readers: count,
    waiting: z.literal('disk').optional(),
    result: jobResultSchema.optional(),
  })
  .refine(({ state, result }) => (state === 'ended') === (result !== undefined))
  .transform(({ waiting, result, ...rest }) => ({
    ...rest,
    ...(waiting !== undefined && { waiting }),
    ...(result !== undefined && { result }),
  }))

export const jobsSchema = z.object({
  jobs: list(jobStatusSchema, LIMITS.runningJobs + LIMITS.endedJobs),
})

export const inputSchema = z.object({ offset: count })

export const uploadSchema: z.ZodType<Upload> = z.object({ offset: count, committed: z.boolean() })

export const fileStatSchema: z.ZodType<FileStat> = z
  .object({
    path,
    type: z.enum(['file', 'folder', 'link', 'socket', 'fifo', 'device']),
    bytes: count,
    mode: count.max(0o177777),
    // Files from before 1970 have negative times.
    modifiedAtMs: z.int(),
    target: text(LIMITS.pathBytes).optional(),
  })
  .transform(({ target, ...rest }) => (target === undefined ? rest : { ...rest, target }))

export const fileListSchema: z.ZodType<FileList> = z
  .object({
    path,
    entries: list(fileStatSchema, LIMITS.listEntries),
    next: path.optional(),
  })
  .transform(({ next, ...rest }) => (next === undefined ? rest : { ...rest, next }))

const processSchema: z.ZodType<ProcessInfo> = z
  .object({
    pid: count,
    parent: count,
    name: text(4096).transform(printable),
    state: word(16),
    cpuMs: count,
    memoryBytes: count,
    startedAtMs: count,
    job: z.string().regex(REFERENCE).optional(),
  })
  .transform(({ job, ...rest }) => (job === undefined ? rest : { ...rest, job }))

/** The limit is higher than the number of processes that Craik allows in a sandbox. */
export const processesSchema = z.object({ processes: list(processSchema, 32_768) })

export const metricsSchema: z.ZodType<Metrics> = z.object({
  cpuMs: count,
  memoryBytes: count,
  processes: count,
  diskUsedBytes: count,
  diskFreeBytes: count,
  sidecarMemoryBytes: count,
  runningJobs: count,
  openConnections: count,
})

export const gapSchema = z.object({ from: count, to: count }).refine(({ from, to }) => to > from)
export const ackSchema = z.object({ offset: count })

export const watchEventSchema = z.object({
  seq: count,
  type: z.enum(['created', 'changed', 'removed', 'gap']),
  path: text(LIMITS.pathBytes),
})

const errorSchema = z.object({
  code: z.enum(SIDECAR_ERROR_CODES),
  message: z.string(),
  offset: count.optional(),
})

/** Parses a number in a header. It must consist of digits and be small enough to be exact. */
export function headerNumber(value: unknown): number | undefined {
  if (typeof value !== 'string' || !/^\d{1,16}$/.test(value)) return undefined
  const number = Number(value)
  return Number.isSafeInteger(number) ? number : undefined
}

export function parseSidecarAnswer<T>(schema: z.ZodType<T>, body: Buffer, doing: string): T {
  let value: unknown
  try {
    value = JSON.parse(body.toString('utf8'))
  } catch {
    throw invalidResponse(doing, 'a response that is not JSON')
  }
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  const where = printable(parsed.error.issues[0]?.path.join('.') ?? '')
  throw invalidResponse(
    doing,
    where === '' ? 'an invalid response' : `a response in which ${where} is invalid`,
  )
}

const CODES: Readonly<Record<SidecarErrorCode, ErrorCode>> = {
  usage: 'usage',
  not_found: 'not_found',
  conflict: 'conflict',
  gone: 'not_found',
  too_large: 'too_large',
  refused: 'refused_inside',
  busy: 'limit_reached',
  full: 'limit_reached',
  changed: 'conflict',
  protocol: 'version_mismatch',
  internal: 'boundary_failed',
}

/**
 * Returns the error that a sidecar answered with. The sidecar's message is quoted, so that the user does not take it
 * for Craik's own.
 */
export function sidecarRefusal(body: Buffer, status: number, doing: string): CraikError {
  let value: unknown
  try {
    value = JSON.parse(body.toString('utf8'))
  } catch {
    value = undefined
  }
  const parsed = errorSchema.safeParse(value)
  if (!parsed.success) return invalidResponse(doing, `status ${status} without a reason`)
  const { code, message, offset } = parsed.data
  return new CraikError(CODES[code], `cannot ${doing}: the sandbox reported “${printable(message)}”`, {
    ...(code === 'conflict' && { hint: 'look in the sandbox:  craik sandbox shell ID' }),
    details: { inside: code, ...(offset !== undefined && { offset }) },
  })
}

/** Returns the error for an invalid response: the sidecar is broken, or is not Craik's. */
export function invalidResponse(doing: string, what: string): CraikError {
  return new CraikError('boundary_failed', `cannot ${doing}: the sandbox sent ${what}`)
}

/** Returns at most 300 characters of one line. A dot replaces each character that could control a terminal. */
function printable(value: string): string {
  const line = value.slice(0, 300).replace(/[\p{C}\p{Zl}\p{Zp}]/gu, '·')
  return value.length > 300 ? `${line}…` : line
}
