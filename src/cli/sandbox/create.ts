/** `craik sandbox create`: creates a sandbox with a copy of a folder, or with the folder itself. */
import { resolve } from 'node:path'
import { Command, Option } from 'commander'
import { CraikError } from '../../errors.ts'
import type { PackageName } from '../../harnesses/packages/harness-catalogue.ts'
import type { SandboxBody } from '../../operator/api/bodies.ts'
import type { CreateBody } from '../../operator/api/requests.ts'
import { TOOL_NAMES } from '../../sandboxes/harness-package.ts'
import { DEFAULT_LIMITS, LIMIT_BOUNDS, TIME_BOUNDS } from '../../sandboxes/limit-bounds.ts'
import type { ApiClient } from '../../sdk/client.ts'
import { type CommandGrant, withCommandGrants } from '../command-grant.ts'
import type { CliContext } from '../context.ts'
import { harnessNamesFrom } from '../harness/harness-names.ts'
import { installHarnesses } from '../harness/install-with-bar.ts'
import { setUpHarnesses } from '../harness/set-up.ts'
import { makeImage, packagesOf } from '../image/make-image.ts'
import { formatOption, printNote } from '../output.ts'
import { countingSeconds, Progress } from '../progress.ts'
import {
  allowCopy,
  formatBytesOptionUp,
  parseBytes,
  parseCount,
  parseCpus,
  parseSpan,
  quoteText,
} from './amounts.ts'
import { backendOption } from './backend-option.ts'
import { connect } from './connect-supervisor.ts'
import { type ContainerOptions, containerOf } from './container-options.ts'
import { copyFolderIn, type FolderCopy } from './copy-in.ts'
import { printCreated } from './create-output.ts'
import { credentialsOption } from './credentials-option.ts'
import { requireSameEngine, withOtherEngine } from './engine-mismatch.ts'
import { offerKeys } from './environment-keys.ts'
import { parseEnvironment } from './environment-option.ts'
import { type CopyLimit, type CopySource, measureWorkspace } from './measure-workspace.ts'
import { parseVolume, volumeGrants, volumeOption } from './volume-option.ts'

interface CreateOptions extends ContainerOptions {
  readonly volume?: readonly string[]
  readonly name?: string
  readonly workspace?: string
  readonly inPlace?: boolean
  readonly isolation?: 'process' | 'none' | 'container'
  readonly apt?: string
  readonly harness?: string
  readonly memory?: string
  readonly pids?: string
  readonly cpus?: string
  readonly disk?: string
  readonly idleTimeout?: string
  readonly maxLifetime?: string
  readonly keep?: string
  readonly maxCopy: string
  readonly env?: readonly string[]
  readonly credentials?: 'broker' | 'forward' | 'none'
  readonly format?: string
}

/** The values of `--transport`, and of `--line`, its earlier name. */
const TRANSPORTS = ['socket', 'relay'] as const

const IN_PLACE =
  'craik: the sandbox can write files that git, editors and builds on this machine would execute: do not run them in this folder (docs/how-to/work-in-place.md)\n'

export function createCommand(context: CliContext): Command {
  return new Command('create')
    .description('create a sandbox')
    .option('--name <name>', 'name of the sandbox: lower-case letters, digits and . _ -')
    .option('--workspace <folder>', 'copy this folder into the sandbox (default: an empty workspace)')
    .option('--in-place', 'use the folder of --workspace itself instead of a copy')
    .option('--from <snapshot>', 'start with the disk of a snapshot, and its limits unless you set them')
    .addOption(backendOption('backend'))
    .addOption(
      new Option(
        '--isolation <kind>',
        'process (with --backend process), container (with --backend docker), or none: run directly on the host, with its network and files (default: that of --backend)',
      ).choices(['process', 'none', 'container']),
    )
    .option('--image <name>', 'image of the container (default: Craik’s own, see craik image)')
    .option(
      '--apt <packages>',
      'add these Debian packages to Craik’s own image, such as jq,ripgrep; needs --backend docker',
    )
    .option(
      '--harness <names>',
      'harnesses (programs of agents) to include, such as claude-code,codex or all; npm is always included; --harness npm includes nothing else',
    )
    .addOption(
      new Option('--runtime <name>', 'runtime of the container; runsc is gVisor').choices(['runc', 'runsc']),
    )
    .addOption(
      new Option(
        '--transport <kind>',
        'how Craik connects to a container: a shared socket, or a relay through the engine (default: what the engine supports)',
      ).choices(TRANSPORTS),
    )
    .addOption(new Option('--line <kind>').choices(TRANSPORTS).conflicts('transport').hideHelp())
    .option('--network <kind>', 'network mode; only none exists (allow hosts with craik egress)')
    .option(
      '--mount <folder[:name]>',
      'mount this folder read-only at /mnt/NAME in a container (repeatable)',
      (one: string, before: readonly string[] = []) => [...before, one],
    )
    .addOption(volumeOption())
    .option('--memory <size>', 'memory limit (default: 2g)')
    .option('--pids <n>', 'process limit (default: 512)')
    .option('--cpus <n>', 'CPU limit in cores, such as 1.5 (default: none)')
    .option('--disk <size>', 'disk limit (default: 4g)')
    .option(
      '--idle-timeout <duration>',
      'stop the sandbox after this time without activity; never: no limit (default: 30m)',
    )
    .option('--max-lifetime <duration>', 'stop the sandbox after it ran for this time (default: no limit)')
    .option(
      '--keep <duration>',
      'delete a stopped sandbox and its disk after this time (default: keep it forever)',
    )
    .option('--env <name=value...>', 'environment variables of the sandbox; do not put secrets here')
    .addOption(credentialsOption())
    .option('--max-copy <size>', 'maximum size of the workspace copy', '4g')
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async (options: CreateOptions) => {
      const harnesses = await harnessNamesFrom(options.harness)
      const wish = { ...bodyOf(options), ...(harnesses.length > 0 && { harnesses: [...harnesses] }) }
      const packages = await parsePackageOption(options)
      const source = await sourceOf(context, options)
      using client = await connect(context)
      // The build of an image takes a minute, so everything that can be refused is refused before it.
      if (wish.backend === 'docker') await requireSameEngine(context, client)
      const body = await withPackages(context, options, wish, packages, harnesses)
      const startedMs = performance.now()
      if (body.credentials !== 'none') await offerKeys(context, client)
      if (harnesses.length > 0 && mountsHostHarnesses(body))
        await installHarnesses(context, withTools(harnesses))
      const sandbox = await createWithParts(context, client, body, harnesses)
      const createdMs = performance.now() - startedMs
      const copied = source && (await copyWorkspaceIn(context, client, sandbox, source))
      if (sandbox.credentials !== 'none') await setUpHarnesses(context, client, sandbox)
      printCreated(context, options, sandbox, createdMs, copied)
      if (body.workspace?.mode === 'in-place') printNote(context, IN_PLACE)
    })
}

function bodyOf(options: CreateOptions): CreateBody {
  const { name, from, isolation, memory, pids, cpus, disk } = options
  if (name !== undefined && !/^[a-z0-9][a-z0-9._-]{0,63}$/.test(name))
    throw new CraikError(
      'usage',
      `--name ${quoteText(name)} is invalid: use lower-case letters, digits and . _ -, at most 64 characters`,
      {
        hint: 'craik sandbox create --name parser',
      },
    )
  if (from !== undefined && options.workspace !== undefined)
    throw new CraikError(
      'usage',
      '--from cannot be combined with --workspace: a snapshot includes its workspace',
      {
        hint: 'copy the folder afterwards:  craik sandbox cp FOLDER ID:',
      },
    )
  return {
    ...(name !== undefined && { name }),
    ...containerOf(options),
    ...(isolation !== undefined && { isolation }),
    workspace: workspaceOf(options),
    limits: {
      ...(memory !== undefined && {
        memory_bytes: parseBytes(memory, '--memory', LIMIT_BOUNDS.memoryBytes),
      }),
      ...(pids !== undefined && { processes: parseCount(pids, '--pids', LIMIT_BOUNDS.processes) }),
      ...(cpus !== undefined && { cpu_millis: parseCpus(cpus, '--cpus', LIMIT_BOUNDS.cpuMillis) }),
      ...(disk !== undefined && { disk_bytes: parseBytes(disk, '--disk', LIMIT_BOUNDS.diskBytes) }),
    },
    ...(options.volume && { volumes: options.volume.map(parseVolume) }),
    environment: parseEnvironment(options.env),
    // A sandbox that runs directly on the host can read its logins anyway.
    credentials: options.credentials ?? (isolation === 'none' ? 'none' : 'broker'),
    ends: endsOf(options),
  }
}

function endsOf({ idleTimeout, maxLifetime, keep }: CreateOptions): NonNullable<CreateBody['ends']> {
  return {
    ...(idleTimeout !== undefined && {
      idle_ms: parseSpan(idleTimeout, '--idle-timeout', TIME_BOUNDS.idleMs),
    }),
    ...(maxLifetime !== undefined && {
      lifetime_ms: parseSpan(maxLifetime, '--max-lifetime', TIME_BOUNDS.lifetimeMs),
    }),
    ...(keep !== undefined && { keep_ms: parseSpan(keep, '--keep', TIME_BOUNDS.keepMs) }),
  }
}

/** An empty name comes from a variable that is not set, and does not mean this folder. */
export function workspaceOf({
  workspace,
  inPlace,
}: Pick<CreateOptions, 'workspace' | 'inPlace'>): NonNullable<CreateBody['workspace']> {
  if (workspace === '')
    throw new CraikError('usage', '--workspace is empty', { hint: 'use this folder:  --workspace .' })
  if (!inPlace) return { mode: 'copy' }
  if (workspace === undefined)
    throw new CraikError('usage', '--in-place requires --workspace', {
      hint: 'use this folder:  --workspace . --in-place',
    })
  return { mode: 'in-place', folder: resolve(workspace) }
}

export async function sourceOf(
  context: CliContext,
  options: Pick<CreateOptions, 'workspace' | 'inPlace' | 'disk' | 'maxCopy'>,
): Promise<CopySource | undefined> {
  const copyBytes = parseBytes(options.maxCopy, '--max-copy')
  const diskBytes = options.disk === undefined ? undefined : parseBytes(options.disk, '--disk')
  const limit: CopyLimit = {
    maxBytes: Math.min(copyBytes, diskBytes ?? Number.POSITIVE_INFINITY),
    allow: (bytes) => allowWorkspace(bytes, copyBytes, diskBytes ?? DEFAULT_LIMITS.diskBytes),
  }
  if (options.workspace === undefined || options.inPlace) return undefined
  using progress = new Progress(context, 'scanning the workspace:')
  return await measureWorkspace(context, options.workspace, limit, (entries) => progress.tick(entries))
}

/** A file system needs additional space for its own data. */
const DISK_OVERHEAD = 1.25

/** Returns the options that allow a copy of this size. */
export function allowWorkspace(bytes: number, copyBytes: number, diskBytes: number): string {
  return [
    ...(bytes > copyBytes ? [allowCopy(bytes)] : []),
    ...(bytes * DISK_OVERHEAD > diskBytes ? [`--disk ${formatBytesOptionUp(bytes * DISK_OVERHEAD)}`] : []),
  ].join(' ')
}

/** Packages can only be in an image: the root of a container is read-only, and no process in it is root. */
async function parsePackageOption({
  apt,
  image,
  backend,
}: CreateOptions): Promise<readonly string[] | undefined> {
  if (apt === undefined) return undefined
  if (backend !== 'docker' || image !== undefined)
    throw new CraikError('usage', '--apt requires --backend docker and Craik’s own image', {
      hint: 'craik sandbox create --backend docker --apt jq,ripgrep',
    })
  return packagesOf(apt)
}

async function withPackages(
  context: CliContext,
  { runtime }: CreateOptions,
  body: CreateBody,
  packages: readonly string[] | undefined,
  harnesses: readonly PackageName[],
): Promise<CreateBody> {
  if (packages === undefined) return body
  const made = await makeImage(context, { packages, harnesses, ...imageFor(runtime) })
  return { ...body, container: { ...body.container, image: made.name } }
}

/**
 * Builds the image or installs the harnesses first if they are missing. This happens in the command, where the user can
 * watch and stop it.
 */
export async function createWithParts(
  context: CliContext,
  client: ApiClient,
  body: CreateBody,
  harnesses: readonly PackageName[],
): Promise<SandboxBody> {
  try {
    return await create(context, client, body)
  } catch (error) {
    const missing = error instanceof CraikError ? error.details?.missing : undefined
    if (missing === 'image') await makeImage(context, { harnesses, ...imageFor(body.container?.runtime) })
    else if (missing === 'harness') await installHarnesses(context, withTools(harnesses))
    else throw error
  }
  return create(context, client, body)
}

/** Adds npm, which comes with every harness. */
function withTools(names: readonly PackageName[]): readonly PackageName[] {
  return [...new Set([...TOOL_NAMES, ...names])]
}

/**
 * Returns whether the sandbox mounts the harnesses of this host. A container has them in its image, and a snapshot may
 * be of either kind.
 */
function mountsHostHarnesses({ backend, isolation, from }: CreateBody): boolean {
  return backend !== 'docker' && from === undefined && isolation !== 'none'
}

function imageFor(runtime: 'runc' | 'runsc' | undefined): { readonly readableNode: boolean } {
  return { readableNode: runtime === 'runsc' }
}

async function create(context: CliContext, client: ApiClient, body: CreateBody): Promise<SandboxBody> {
  const common = {
    ...(body.name !== undefined && { target: `sandbox/${body.name}` }),
    command: 'craik sandbox create',
  }
  const grant: CommandGrant = { capability: 'sandbox.create', operation: 'create', ...common }
  const folders = foldersOf(body).map(
    (folder): CommandGrant => ({ capability: 'sandbox.mount', ...folder, ...common }),
  )
  using progress = new Progress(context, 'creating the sandbox,', ' s')
  using _ = countingSeconds(progress)
  try {
    return await withCommandGrants(
      context,
      [grant, ...folders, ...volumeGrants(body), ...loginsOf(body, common)],
      (grantId) => client.sandboxes.create(body, { signal: context.signal, grantId }),
    )
  } catch (error) {
    throw withAlternativeHint(await withOtherEngine(error, context, client), body)
  }
}

/** Grants the use of the logins, because the user asked for a sandbox with logins. */
function loginsOf(
  { credentials = 'none' }: CreateBody,
  common: Pick<CommandGrant, 'target' | 'command'>,
): CommandGrant[] {
  return credentials === 'none' ? [] : [{ capability: 'login.use', operation: credentials, ...common }]
}

/** Grants the use of each folder that the user named. */
function foldersOf({ workspace, mounts = [] }: CreateBody): Pick<CommandGrant, 'operation' | 'path'>[] {
  return [
    ...(workspace?.mode === 'in-place' ? [{ operation: 'write', path: workspace.folder }] : []),
    ...[...new Set(mounts.map(({ folder }) => folder))].map((path) => ({ operation: 'read', path })),
  ]
}

/**
 * If an engine or bubblewrap is missing, adds the alternative to the hint. Craik never uses the alternative by itself.
 */
function withAlternativeHint(error: unknown, body: CreateBody): unknown {
  if (!(error instanceof CraikError) || error.code !== 'unavailable') return error
  const isDocker = body.backend === 'docker'
  if (isDocker ? error.details?.none !== true : error.hint.includes('--isolation none')) return error
  const other = isDocker
    ? 'or use a process sandbox, which needs no engine: remove --backend'
    : 'or run without isolation: --isolation none'
  return new CraikError(error.code, error.message, {
    hint: `${error.hint}   ${other}`,
    ...(error.details && { details: error.details }),
    cause: error,
  })
}

/**
 * Copies the files into a new sandbox. If that fails, deletes the sandbox, because the user did not ask for one without
 * these files.
 */
export async function copyWorkspaceIn(
  context: CliContext,
  client: ApiClient,
  sandbox: SandboxBody,
  source: CopySource,
): Promise<FolderCopy> {
  try {
    return await copyFolderIn(context, client, sandbox.id, '.', source)
  } catch (error) {
    // Does not pass the signal, because its abort may be the cause of the failure.
    await client.sandboxes.delete(sandbox.id).catch(() => {
      printNote(
        context,
        `craik: could not delete the incomplete sandbox:  craik sandbox delete ${sandbox.name}\n`,
      )
    })
    throw error
  }
}

const HELP = `
The sandbox has a read-only system and no network. It reaches hosts that you
allow (craik egress allow) only through Craik's proxy. With --isolation none,
programs have the host's system and network. Changes to the workspace copy stay
in the sandbox until you copy them out (craik sandbox cp). If this machine can
enforce a limit only per process, or not at all, the output says so.

The sandbox stops after 30 minutes without activity, and keeps its disk. A
command, a terminal, a forwarded port and a busy process are activity. Start
the sandbox again with craik sandbox resume.

Examples:
  craik sandbox create --name parser --workspace .
  craik sandbox create --name agent --idle-timeout never --max-lifetime 24h
  craik sandbox create --memory 2g --pids 512 --cpus 1.5
  craik sandbox create --name again --from parser-before
  craik sandbox create --backend docker --mount ../library
  craik sandbox create --name tools --volume tools:.local
  craik sandbox create --name fixer --harness kimi
`
