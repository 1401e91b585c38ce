/** What may be asked of a new sandbox: parsed and limited once, with what it gets when nothing was said. */
import { statSync } from 'node:fs'
import { z } from 'zod'
import { CraikError } from '../../errors.ts'
import { parseInput, reference, refuseSecrets } from '../../policy/request.ts'
import { type HostUser, ISOLATIONS, type LimitSpec, type WorkspaceSpec } from '../backend.ts'
import { refuseSteering } from '../backends/process/environment.ts'
import { resolveWorkspace } from '../backends/process/workspace.ts'
import { type Bounds, DEFAULT_LIMITS, LIMIT_BOUNDS } from '../limit-bounds.ts'

const within = ({ least, most }: Bounds) =>
  z.int().min(least, `is less than ${least}`).max(most, `is more than ${most}`).optional()

const limits = z.strictObject({
  memoryBytes: within(LIMIT_BOUNDS.memoryBytes),
  processes: within(LIMIT_BOUNDS.processes),
  cpuMillis: within(LIMIT_BOUNDS.cpuMillis),
  diskBytes: within(LIMIT_BOUNDS.diskBytes),
})

const variable = z
  .string()
  .max(128, 'has more than 128 characters')
  .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'must be a name of letters, digits and _')

const environment = z
  .record(
    variable,
    z
      .string()
      .max(32 * 1024, 'has more than 32,768 characters')
      .refine((text) => !text.includes('\0'), 'holds a NUL'),
  )
  .refine((all) => Object.keys(all).length <= 256, 'has more than 256 variables')
  .refine((all) => byteLength(all) <= 128 * 1024, 'is larger than 128 KiB')

/** An id could be meant by a name that looks like one. */
const name = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, 'must be letters, digits and . _ -, at most 64 characters')
  .refine((text) => !/^sbx_/i.test(text), 'must not begin like an id')

const folder = z
  .string()
  .startsWith('/', 'must be an absolute path')
  .max(4096, 'has more than 4,096 characters')

const createRequest = z.strictObject({
  name: name.optional(),
  backend: z.literal('process'),
  isolation: z.enum(ISOLATIONS),
  workspace: z.discriminatedUnion('mode', [
    z.strictObject({ mode: z.literal('copy') }),
    z.strictObject({ mode: z.literal('in-place'), folder }),
  ]),
  limits: limits.default({}),
  environment: environment.default({}),
  policyEnvelopeId: reference.optional(),
})

export interface ParsedCreate {
  readonly name: string | undefined
  readonly isolation: z.infer<typeof createRequest>['isolation']
  readonly workspace: WorkspaceSpec
  readonly limits: LimitSpec
  readonly environment: Readonly<Record<string, string>>
  readonly policyEnvelopeId: string | undefined
  /** `allocate`: one of its own, which the store chooses. Undefined: the one that Craik runs as. */
  readonly hostUser: HostUser | 'allocate' | undefined
}

export interface CreateSurroundings {
  readonly craikHome: string
  readonly environment: NodeJS.ProcessEnv
  /** Whom Craik runs as; 0 is root. */
  readonly uid: number
}

export function parseCreate(input: unknown, around: CreateSurroundings): ParsedCreate {
  const request = parseInput(createRequest, input, 'the sandbox')
  refuseSteering(request.environment)
  refuseSecrets({ name: request.name, environment: request.environment }, 'the sandbox')
  const workspace = resolve(request.workspace, around)
  return {
    name: request.name,
    isolation: request.isolation,
    workspace,
    limits: { ...DEFAULT_LIMITS, ...given(request.limits) },
    environment: request.environment,
    policyEnvelopeId: request.policyEnvelopeId,
    hostUser: hostUser(request.isolation, workspace, around.uid),
  }
}

function resolve(workspace: WorkspaceSpec, around: CreateSurroundings): WorkspaceSpec {
  if (workspace.mode === 'copy') return workspace
  const { folder, covered } = resolveWorkspace(workspace.folder, around.craikHome, around.environment)
  if (covered.length > 0) {
    throw new CraikError('usage', 'the workspace holds Craik’s own home', {
      hint: 'choose a project’s own folder, such as a repository, or copy it: leave out --in-place',
    })
  }
  return { mode: 'in-place', folder }
}

/** Root never lends its own rights: a sandbox gets a user of its own, or the one that owns the workspace. */
function hostUser(isolation: string, workspace: WorkspaceSpec, uid: number): ParsedCreate['hostUser'] {
  const owner = workspace.mode === 'in-place' ? statSync(workspace.folder) : undefined
  if (uid !== 0) {
    if (owner === undefined || owner.uid === uid) return undefined
    throw new CraikError('usage', `the workspace belongs to another user (uid ${owner.uid})`, {
      hint: 'work on a copy: leave out --in-place',
    })
  }
  if (isolation === 'none') return undefined
  if (owner === undefined) return 'allocate'
  if (owner.uid !== 0) return { uid: owner.uid, gid: owner.gid }
  throw new CraikError('usage', 'the workspace belongs to root, and a sandbox never runs as root', {
    hint: 'work on a copy: leave out --in-place',
  })
}

function byteLength(all: Readonly<Record<string, string>>): number {
  return Object.entries(all).reduce(
    (sum, [key, value]) => sum + Buffer.byteLength(key) + Buffer.byteLength(value) + 2,
    0,
  )
}

function given<T extends object>(record: T): { [K in keyof T]: NonNullable<T[K]> } {
  return Object.fromEntries(Object.entries(record).filter(([, value]) => value !== undefined)) as never
}
