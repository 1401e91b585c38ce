/** Validates jobs and the requests about them. */
import * as z from 'zod/mini'
import { type JobSpec, LIMITS, REFUSED_VARIABLES } from '../protocol.ts'
import { queryFlag, SidecarError } from '../router.ts'
import type { InputTurn } from './input-lock.ts'

const MAX_CELLS = 10_000

const text = z.string().check(z.refine((value) => !value.includes('\0'), 'contains a NUL'))
const path = text.check(
  z.minLength(1),
  z.refine((value) => Buffer.byteLength(value) <= LIMITS.pathBytes, 'is too long'),
)
const argv = z.array(text).check(
  z.minLength(1),
  z.refine((args) => args[0] !== '', 'names no program'),
  z.refine((args) => bytesOf(args) <= LIMITS.argvBytes, `is longer than ${LIMITS.argvBytes} bytes`),
)
const name = text.check(
  z.minLength(1),
  z.refine((value) => !value.includes('='), 'contains a ='),
)
const env = z.record(name, text).check(
  z.refine(
    (values) => !REFUSED_VARIABLES.some((one) => Object.hasOwn(values, one)),
    `must not set any of ${REFUSED_VARIABLES.join(', ')}`,
  ),
  z.refine(
    (values) => bytesOf(Object.entries(values).flat()) <= LIMITS.envBytes,
    `is longer than ${LIMITS.envBytes} bytes`,
  ),
)
const runnable = {
  argv,
  cwd: z.optional(path),
  env: z.optional(env),
  timeoutMs: z.optional(z.int().check(z.minimum(1), z.maximum(LIMITS.maxTimeoutMs))),
}
const cells = z.int().check(z.minimum(1), z.maximum(MAX_CELLS))

const jobSpec = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('exec'),
    ...runnable,
    stdin: z.optional(z.boolean()),
    maxOutputBytes: z.optional(z.int().check(z.minimum(0), z.maximum(LIMITS.maxOutputBytes))),
  }),
  z.strictObject({
    kind: z.literal('terminal'),
    ...runnable,
    cols: cells,
    rows: cells,
    term: z.optional(text.check(z.minLength(1), z.maxLength(64))),
  }),
  z.strictObject({ kind: z.literal('tar-in'), path, env: z.optional(env) }),
  z.strictObject({ kind: z.literal('tar-out'), path, env: z.optional(env) }),
])

const resize = z.strictObject({ cols: cells, rows: cells })
const signal = z.strictObject({ signal: z.string().check(z.regex(/^SIG[A-Z0-9]{1,10}$/)) })

export const parseJobSpec = (value: unknown): JobSpec => parse(jobSpec, value, 'the job') as JobSpec
export const parseResize = (value: unknown) => parse(resize, value, 'the size')
export const parseSignal = (value: unknown) => parse(signal, value, 'the signal')

/** Exported for ids in paths, which are not JSON. */
export function parseJobId(value: string): string {
  if (/^[A-Za-z0-9_-]{1,64}$/.test(value)) return value
  throw new SidecarError('usage', 'a job id must be 1 to 64 letters, digits, _ and -')
}

/** Returns the sender of a request for input, and whether it takes over. */
export function parseTurn(query: URLSearchParams): InputTurn {
  const id = query.get('turn') ?? undefined
  if (id !== undefined && !/^[A-Za-z0-9_-]{1,64}$/.test(id))
    throw new SidecarError('usage', 'the query parameter turn must be 1 to 64 letters, digits, _ and -')
  return { id, take: queryFlag(query, 'take', false) }
}

function parse<T extends z.ZodMiniType>(schema: T, value: unknown, what: string): z.output<T> {
  const parsed = z.safeParse(schema, value)
  if (parsed.success) return parsed.data
  const issue = parsed.error.issues[0]!
  throw new SidecarError('usage', `${what}: ${issue.path.join('.')} ${issue.message}`.slice(0, 300))
}

function bytesOf(values: readonly string[]): number {
  return values.reduce((sum, value) => sum + Buffer.byteLength(value) + 1, 0)
}
