/** Parses the request for a new sandbox once, checks its limits and fills in the defaults. */

import { z } from 'zod'
import { CraikError } from '../../errors.ts'
import { findPinnedInside } from '../../lib/host-programs.ts'
import { findContainingFolder } from '../../lib/trusted-path.ts'
import { parseInput, reference, refuseSecrets } from '../../policy/decision-request.ts'
import {
  BACKEND_NAMES,
  type BackendName,
  CONTAINER_RUNTIMES,
  CONTAINER_TRANSPORTS,
  type ContainerRequest,
  CREDENTIAL_MODES,
  type CredentialMode,
  type HostUser,
  ISOLATIONS,
  type Isolation,
  type LimitSpec,
  MOUNT_MODES,
  type MountSpec,
  NETWORKS,
  OWN_IMAGE,
  SUPPORTED_ISOLATION,
  type VolumeSpec,
  type WorkspaceSpec,
} from '../backend.ts'
import { refuseSidecarVariables } from '../backends/process/sidecar-variables.ts'
import { overlapsCraikPrograms, resolveMount, resolveWorkspace } from '../backends/process/workspace.ts'
import { HARNESS_NAME, MAX_HARNESSES } from '../harness-package.ts'
import type { ExplicitFields } from '../lifecycle/explicit-fields.ts'
import { type Bounds, DEFAULT_LIMITS, LIMIT_BOUNDS, TIME_BOUNDS } from '../limit-bounds.ts'
import type { SandboxEnds } from '../manager-types.ts'
import { COPY_INSTEAD } from '../outdated-sandbox.ts'
import { refuseVariables } from '../refused-variables.ts'
import { volumes } from '../volumes/volume.ts'

/**
 * A sandbox that is idle for half an hour is stopped, which loses no written data. A working sandbox is never idle, so
 * by default no lifetime stops it, and nothing is removed.
 */
const DEFAULT_ENDS: SandboxEnds = { idleMs: 30 * 60_000, lifetimeMs: null, keepMs: null }

const within = ({ least, most }: Bounds) =>
  z.int().min(least, `is less than ${least}`).max(most, `is more than ${most}`).optional()

const limits = z.strictObject({
  memoryBytes: within(LIMIT_BOUNDS.memoryBytes),
  processes: within(LIMIT_BOUNDS.processes),
  cpuMillis: within(LIMIT_BOUNDS.cpuMillis),
  diskBytes: within(LIMIT_BOUNDS.diskBytes),
})

const span = ({ least, most }: Bounds) => z.int().min(least).max(most).nullable().optional()

const ends = z.strictObject({
  idleMs: span(TIME_BOUNDS.idleMs),
  lifetimeMs: span(TIME_BOUNDS.lifetimeMs),
  keepMs: span(TIME_BOUNDS.keepMs),
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
      .refine((text) => !text.includes('\0'), 'contains a NUL'),
  )
  .refine((all) => Object.keys(all).length <= 256, 'has more than 256 variables')
  .refine((all) => byteLength(all) <= 128 * 1024, 'is larger than 128 KiB')

/** A name that looks like an id would be ambiguous. */
const name = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, 'must be letters, digits and . _ -, at most 64 characters')
  .refine((text) => !/^sbx_/i.test(text), 'must not begin with sbx_')

const folder = z
  .string()
  .startsWith('/', 'must be an absolute path')
  .max(4096, 'has more than 4,096 characters')

/** Each mounted folder is scanned before the sandbox starts. */
const MAX_MOUNTS = 8
const at = z
  .string()
  .regex(/^\/mnt\/[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, 'must be /mnt/ and a name of letters, digits and . _ -')

const createRequest = z.strictObject({
  name: name.optional(),
  backend: z.enum(BACKEND_NAMES),
  isolation: z.enum(ISOLATIONS),
  workspace: z
    .discriminatedUnion('mode', [
      z.strictObject({ mode: z.literal('copy') }),
      z.strictObject({ mode: z.literal('in-place'), folder }),
    ])
    .optional(),
  limits: limits.default({}),
  environment: environment.optional(),
  harnesses: z
    .array(z.string().regex(HARNESS_NAME, 'must be the name of a harness, such as codex'))
    .max(MAX_HARNESSES, `has more than ${MAX_HARNESSES} entries`)
    .default([]),
  credentials: z.enum(CREDENTIAL_MODES).default('none'),
  network: z.enum(NETWORKS).optional(),
  mounts: z
    .array(z.strictObject({ folder, at, mode: z.enum(MOUNT_MODES) }))
    .max(MAX_MOUNTS, `has more than ${MAX_MOUNTS} entries`)
    .refine((all) => new Set(all.map((one) => one.at)).size === all.length, 'has the same path twice')
    .optional(),
  volumes: volumes.optional(),
  container: z
    .strictObject({
      image: z
        .string()
        .regex(/^[A-Za-z0-9][A-Za-z0-9._/:@-]{0,255}$/, 'must be the name or the id of an image')
        .optional(),
      runtime: z.enum(CONTAINER_RUNTIMES).optional(),
      line: z.enum(CONTAINER_TRANSPORTS).optional(),
    })
    .optional(),
  policyEnvelopeId: reference.optional(),
  ends: ends.default({}),
})

type RequestedCreate = z.infer<typeof createRequest>

export interface ParsedCreate {
  readonly name: string | undefined
  readonly backend: BackendName
  readonly container: ContainerRequest | undefined
  readonly isolation: Isolation
  readonly workspace: WorkspaceSpec
  readonly mounts: readonly MountSpec[]
  readonly volumes: readonly VolumeSpec[]
  /** The fields that the request set explicitly. */
  readonly stated: ExplicitFields
  readonly limits: LimitSpec
  readonly environment: Readonly<Record<string, string>>
  /** The names of the harnesses. */
  readonly harnesses: readonly string[]
  readonly credentials: CredentialMode
  readonly policyEnvelopeId: string | undefined
  readonly ends: SandboxEnds
  /** `allocate`: the store chooses a user for this sandbox. Undefined: the user that Craik runs as. */
  readonly hostUser: HostUser | 'allocate' | undefined
}

/** Variables of the supervisor's environment that name trusted files or sockets. */
const TRUSTED = [
  'NODE_EXTRA_CA_CERTS',
  'SSL_CERT_FILE',
  'SSL_CERT_DIR',
  'DOCKER_CERT_PATH',
  'CRAIK_ENGINE',
  'DOCKER_HOST',
  'XDG_RUNTIME_DIR',
  'TMPDIR',
]

export interface CreateContext {
  readonly craikHome: string
  readonly environment: NodeJS.ProcessEnv
  /** The user that Craik runs as; 0 is root. */
  readonly uid: number
  /** Folders of the host that other sandboxes can already write. */
  readonly mounted?: readonly string[]
}

export function parseCreate(input: unknown, around: CreateContext): ParsedCreate {
  const request = parseInput(createRequest, input, 'the sandbox')
  requireFit(request)
  const { environment = {}, mounts = [] } = request
  refuseSidecarVariables(environment)
  refuseVariables(environment, 'the environment of the sandbox')
  refuseSecrets({ name: request.name, environment, volumes: request.volumes }, 'the sandbox')
  const { workspace, owner } = resolve(request.workspace ?? { mode: 'copy' }, around)
  return {
    name: request.name,
    backend: request.backend,
    container: request.container && { ...request.container, image: imageOf(request.container) },
    isolation: request.isolation,
    workspace,
    // Policy denies a writable mount, whatever its folder is.
    mounts: mounts.flatMap(({ mode, folder, at }) =>
      mode === 'read_only' ? [{ folder: resolveMount(folder, at, around).folder, at }] : [],
    ),
    volumes: request.volumes ?? [],
    stated: toExplicitFields(request),
    limits: { ...DEFAULT_LIMITS, ...dropUndefinedFields(request.limits) },
    environment,
    harnesses: request.harnesses,
    credentials: request.credentials,
    policyEnvelopeId: request.policyEnvelopeId,
    ends: { ...DEFAULT_ENDS, ...dropUndefinedFields(request.ends) } as SandboxEnds,
    hostUser: hostUser(request.isolation, owner, around.uid),
  }
}

const ASK_DOCKER = 'use a container:  --backend docker'

/** The sandbox gets the requested isolation: no backend with another isolation replaces it. */
function requireFit(request: RequestedCreate): void {
  const { backend, isolation, container, credentials, network, harnesses } = request
  const { mounts = [], volumes = [] } = request
  if (!SUPPORTED_ISOLATION[backend].includes(isolation)) {
    throw new CraikError('usage', `the ${backend} backend does not support isolation ${isolation}`, {
      hint:
        isolation === 'container'
          ? ASK_DOCKER
          : `choose a supported isolation: ${SUPPORTED_ISOLATION[backend].join(', ')}`,
    })
  }
  if (container !== undefined && backend !== 'docker')
    throw new CraikError('usage', `the ${backend} backend does not use images or container runtimes`, {
      hint: ASK_DOCKER,
    })
  if (mounts.length > 0 && backend !== 'docker')
    throw new CraikError('usage', `the ${backend} backend does not support mounts`, {
      hint: ASK_DOCKER,
    })
  if (volumes.length > 0 && isolation === 'none')
    throw new CraikError(
      'usage',
      'a sandbox with isolation none uses the host’s folders and cannot have volumes',
      {
        hint: 'leave out --volume',
      },
    )
  if (credentials !== 'none' && isolation === 'none')
    throw new CraikError(
      'usage',
      'a sandbox with isolation none uses the host’s logins and cannot have others',
      {
        hint: 'leave out --credentials',
      },
    )
  if (harnesses.length > 0 && isolation === 'none')
    throw new CraikError(
      'usage',
      'a sandbox with isolation none uses the host’s programs and cannot have others',
      {
        hint: 'leave out --harness',
      },
    )
  if (network !== undefined && isolation === 'none')
    throw new CraikError(
      'usage',
      'a sandbox with isolation none uses the host’s network and cannot have another',
    )
}

/** A foreign image with the name of Craik's own can be given with its tag. */
function imageOf({ image }: ContainerRequest): string | undefined {
  return image === OWN_IMAGE ? undefined : image
}

function toExplicitFields({
  network,
  mounts,
  container,
  environment,
  workspace,
}: RequestedCreate): ExplicitFields {
  const writable = mounts?.filter(({ mode }) => mode === 'read_write').length ?? 0
  return {
    network: network ?? null,
    mounts: mounts ? { all: mounts.length, writable } : null,
    image: container?.image !== undefined,
    environment: environment !== undefined,
    workspace: workspace !== undefined,
  }
}

function resolve(
  workspace: WorkspaceSpec,
  around: CreateContext,
): { readonly workspace: WorkspaceSpec; readonly owner?: HostUser } {
  if (workspace.mode === 'copy') return { workspace }
  const { folder, owner, covered } = resolveWorkspace(workspace.folder, around.craikHome, around.environment)
  if (covered.length > 0) {
    throw new CraikError('usage', 'the workspace contains Craik’s own home', {
      hint: `choose a project folder, such as a repository, or ${COPY_INSTEAD}`,
    })
  }
  if (overlapsCraikPrograms(folder)) {
    throw new CraikError('usage', 'the workspace overlaps Craik’s own program files, which the host runs', {
      hint: COPY_INSTEAD,
    })
  }
  const program = findPinnedInside(folder, around.environment, around.mounted ?? [])
  if (program !== undefined) {
    throw new CraikError('usage', `the workspace contains ${program}, which Craik runs on the host`, {
      hint: `${COPY_INSTEAD}, or remove its folder from PATH and stop the supervisor:  craik supervisor stop`,
    })
  }
  const trusted = findTrustedInside(folder, around.environment)
  if (trusted !== undefined) {
    throw new CraikError('usage', `the workspace contains the path in ${trusted}, which Craik trusts`, {
      hint: `${COPY_INSTEAD}, or copy it to another folder and stop the supervisor:  craik supervisor stop`,
    })
  }
  return { workspace: { mode: 'in-place', folder }, owner }
}

/**
 * Returns the variable that names a trusted file or socket in the folder. Through these the supervisor finds what it
 * trusts.
 */
function findTrustedInside(folder: string, environment: NodeJS.ProcessEnv): string | undefined {
  return TRUSTED.find((name) => {
    const value = (environment[name] ?? '').replace(/^unix:\/\//, '')
    // SSL_CERT_DIR is a list. In the path of another variable, a colon is a character like any other.
    return [value, ...value.split(':')].some(
      (path) => path.startsWith('/') && findContainingFolder(path, [folder]) !== undefined,
    )
  })
}

/** A sandbox never runs as root: it gets its own user, or the owner of the workspace. */
function hostUser(isolation: string, owner: HostUser | undefined, uid: number): ParsedCreate['hostUser'] {
  if (uid !== 0) {
    if (owner === undefined || owner.uid === uid) return undefined
    throw new CraikError('usage', `the workspace belongs to another user (uid ${owner.uid})`, {
      hint: COPY_INSTEAD,
    })
  }
  if (isolation === 'none') return undefined
  if (owner === undefined) return 'allocate'
  if (owner.uid !== 0) return owner
  throw new CraikError('usage', 'the workspace belongs to root, and a sandbox never runs as root', {
    hint: COPY_INSTEAD,
  })
}

function byteLength(all: Readonly<Record<string, string>>): number {
  return Object.entries(all).reduce(
    (sum, [key, value]) => sum + Buffer.byteLength(key) + Buffer.byteLength(value) + 2,
    0,
  )
}

function dropUndefinedFields<T extends object>(record: T): { [K in keyof T]: NonNullable<T[K]> } {
  return Object.fromEntries(Object.entries(record).filter(([, value]) => value !== undefined)) as never
}
