/** `craik sandbox create`: a place of its own, with a copy of a folder in it, or the folder itself. */
import { resolve } from 'node:path'
import { Command, Option } from 'commander'
import { CraikError } from '../../errors.ts'
import { formatDuration } from '../../lib/duration.ts'
import type { SandboxBody } from '../../operator/api/bodies.ts'
import type { CreateBody } from '../../operator/api/requests.ts'
import { createGrant, getGrant, revokeGrant } from '../../policy/grants.ts'
import { DEFAULT_LIMITS, LIMIT_BOUNDS } from '../../sandboxes/limit-bounds.ts'
import type { ApiClient } from '../../sdk/client.ts'
import type { CliContext } from '../context.ts'
import { formatOption, printable, printRecord } from '../output.ts'
import { Progress } from '../progress.ts'
import { allowCopy, filesOf, parseBytes, parseCount, parseCpus, typedBytesUp } from './amounts.ts'
import { connect } from './connect.ts'
import { copyFolderIn, type FolderCopy } from './copy-in.ts'
import { parseEnvironment } from './environment.ts'
import { notHeld, placeOf } from './view.ts'
import { type CopyLimit, type CopySource, measureWorkspace } from './workspace.ts'

interface CreateOptions {
  readonly name?: string
  readonly workspace?: string
  readonly inPlace?: boolean
  readonly isolation: 'process' | 'none'
  readonly memory?: string
  readonly pids?: string
  readonly cpus?: string
  readonly disk?: string
  readonly maxCopy: string
  readonly env?: readonly string[]
  readonly format?: string
}

const IN_PLACE =
  'craik: what runs inside can leave files that git, editors and builds here would execute: run none of them in this folder (docs/sandboxes.md, “In place”)\n'

/** The grant that the command makes for itself is used at once or never. */
const GRANT_LIFETIME_MS = 2 * 60_000

export function createCommand(context: CliContext): Command {
  return new Command('create')
    .description('create a sandbox')
    .option('--name <name>', 'what to call it: lower-case letters, digits and . _ -')
    .option('--workspace <folder>', 'begin with a copy of this folder (default: an empty workspace)')
    .option('--in-place', 'use the folder of --workspace itself, in place of a copy')
    .addOption(
      new Option('--isolation <kind>', 'none: on this machine itself, held by nothing')
        .choices(['process', 'none'])
        .default('process'),
    )
    .option('--memory <size>', 'at most so much memory, such as 2g')
    .option('--pids <n>', 'at most so many processes')
    .option('--cpus <n>', 'at most so many cores, such as 1.5')
    .option('--disk <size>', 'at most so much disk, such as 4g')
    .option('--env <name=value...>', 'variables for everything that runs in it; no secrets')
    .option('--max-copy <size>', 'refuse to copy more', '4g')
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async (options: CreateOptions) => {
      const body = bodyOf(options)
      const source = await sourceOf(context, options)
      using client = await connect(context)
      const startedMs = performance.now()
      const sandbox = await create(context, client, body)
      const createdMs = performance.now() - startedMs
      const copied = source && (await fill(context, client, sandbox, source))
      print(context, options, sandbox, createdMs, copied)
      if (body.workspace?.mode === 'in-place') context.stderr.write(IN_PLACE)
    })
}

function bodyOf(options: CreateOptions): CreateBody {
  const { name, isolation, memory, pids, cpus, disk } = options
  if (name !== undefined && !/^[a-z0-9][a-z0-9._-]{0,63}$/.test(name))
    throw new CraikError(
      'usage',
      '--name takes lower-case letters, digits and . _ -, at most 64 characters',
      {
        hint: 'craik sandbox create --name parser',
      },
    )
  return {
    ...(name !== undefined && { name }),
    isolation,
    workspace: workspaceOf(options),
    limits: {
      ...(memory !== undefined && {
        memory_bytes: parseBytes(memory, '--memory', LIMIT_BOUNDS.memoryBytes),
      }),
      ...(pids !== undefined && { processes: parseCount(pids, '--pids', LIMIT_BOUNDS.processes) }),
      ...(cpus !== undefined && { cpu_millis: parseCpus(cpus, '--cpus', LIMIT_BOUNDS.cpuMillis) }),
      ...(disk !== undefined && { disk_bytes: parseBytes(disk, '--disk', LIMIT_BOUNDS.diskBytes) }),
    },
    environment: parseEnvironment(options.env),
  }
}

/** A folder is named or not: an empty name is a variable that was not set, and not this folder. */
export function workspaceOf({
  workspace,
  inPlace,
}: Pick<CreateOptions, 'workspace' | 'inPlace'>): NonNullable<CreateBody['workspace']> {
  if (workspace === '')
    throw new CraikError('usage', '--workspace is empty', { hint: 'this folder is --workspace .' })
  if (!inPlace) return { mode: 'copy' }
  if (workspace === undefined)
    throw new CraikError('usage', '--in-place needs the folder to use', {
      hint: 'this folder is --workspace . --in-place',
    })
  return { mode: 'in-place', folder: resolve(workspace) }
}

async function sourceOf(context: CliContext, options: CreateOptions): Promise<CopySource | undefined> {
  const copyBytes = parseBytes(options.maxCopy, '--max-copy')
  const diskBytes = options.disk === undefined ? undefined : parseBytes(options.disk, '--disk')
  const limit: CopyLimit = {
    maxBytes: Math.min(copyBytes, diskBytes ?? Number.POSITIVE_INFINITY),
    allow: (bytes) => allowWorkspace(bytes, copyBytes, diskBytes ?? DEFAULT_LIMITS.diskBytes),
  }
  if (options.workspace === undefined || options.inPlace) return undefined
  using progress = new Progress(context, 'looking through the workspace:')
  return await measureWorkspace(context, options.workspace, limit, (entries) => progress.tick(entries))
}

/** A file system needs room of its own besides what is in it. */
const DISK_OVERHEAD = 1.25

/** What a copy of so much needs, of the options that say how much may be. */
export function allowWorkspace(bytes: number, copyBytes: number, diskBytes: number): string {
  return [
    ...(bytes > copyBytes ? [allowCopy(bytes)] : []),
    ...(bytes * DISK_OVERHEAD > diskBytes ? [`--disk ${typedBytesUp(bytes * DISK_OVERHEAD)}`] : []),
  ].join(' ')
}

/** Whoever types the command gives leave for it: a grant for one use, on record like any other. */
async function create(context: CliContext, client: ApiClient, body: CreateBody): Promise<SandboxBody> {
  const store = await context.store()
  const operator = await context.operator()
  const { grant } = await createGrant(
    store,
    {
      capability: 'sandbox.create',
      subject: operator,
      scope: 'any',
      target: body.name === undefined ? {} : { ref: `sandbox/${body.name}` },
      operations: ['create'],
      max_uses: 1,
      reason: 'typed: craik sandbox create',
      approved_by: operator,
    },
    { expiresAtMs: context.clock.nowMs() + GRANT_LIFETIME_MS },
  )
  using progress = new Progress(context, 'creating the sandbox,', ' s')
  using _ = ticking(progress)
  try {
    return await client.sandboxes.create(body, { signal: context.signal, grantId: grant.id })
  } catch (error) {
    const { state } = await getGrant(store, grant.id, context.clock.nowMs())
    if (state === 'usable') await revokeGrant(store, grant.id, operator)
    throw withWayOut(error, body)
  }
}

/** A refusal for want of bubblewrap also names the way without it, which nobody falls into by accident. */
function withWayOut(error: unknown, body: CreateBody): unknown {
  if (!(error instanceof CraikError) || error.code !== 'unavailable' || body.isolation !== 'process')
    return error
  if (error.hint.includes('--isolation none')) return error
  return new CraikError(error.code, error.message, {
    hint: `${error.hint}   or, held by nothing: --isolation none`,
    ...(error.details && { details: error.details }),
    cause: error,
  })
}

/** A sandbox without the files it was to begin with is not what was asked for: it is removed again. */
async function fill(
  context: CliContext,
  client: ApiClient,
  sandbox: SandboxBody,
  source: CopySource,
): Promise<FolderCopy> {
  try {
    return await copyFolderIn(context, client, sandbox.id, '.', source)
  } catch (error) {
    // Not with the signal, which may be why it failed.
    await client.sandboxes.delete(sandbox.id).catch(() => {
      context.stderr.write(`craik: the sandbox is left:  craik sandbox delete ${sandbox.name}\n`)
    })
    throw error
  }
}

function print(
  context: CliContext,
  options: CreateOptions,
  sandbox: SandboxBody,
  createdMs: number,
  copied: FolderCopy | undefined,
): void {
  const record = {
    ...sandbox,
    create_ms: Math.round(createdMs),
    copied:
      copied === undefined
        ? null
        : { files: copied.files, bytes: copied.bytes, skipped: [...copied.skipped] },
  }
  printRecord(context, options, record as unknown as Parameters<typeof printRecord>[2], () => {
    const facts = [
      printable(sandbox.name),
      placeOf(sandbox),
      formatDuration(createdMs),
      ...(copied === undefined ? [] : [`copied ${filesOf(copied.files)}`]),
      ...(sandbox.workspace.mode === 'in-place' ? ['workspace in place'] : []),
    ]
    const weak = notHeld(sandbox.limits, sandbox.enforced)
    return [
      `  sandbox  ${facts.join(' · ')}\n`,
      weak.length === 0 ? '' : `  limits   ${weak.join(' · ')}\n`,
      skippedLine(copied),
      `  next     craik sandbox shell ${sandbox.name}\n`,
    ].join('')
  })
}

/** How many names a line shows. */
const SHOWN = 3

function skippedLine(copied: FolderCopy | undefined): string {
  if (copied === undefined || copied.skippedCount === 0) return ''
  const names = copied.skipped.slice(0, SHOWN).map(printable).join(', ')
  return `  left out ${copied.skippedCount.toLocaleString('en')}: ${names}${copied.skippedCount > SHOWN ? ' …' : ''}\n`
}

function ticking(progress: Progress): Disposable {
  const startedMs = performance.now()
  const seconds = () => Math.floor((performance.now() - startedMs) / 1000)
  const timer = setInterval(() => void progress.tick(seconds()).catch(() => {}), 250)
  return { [Symbol.dispose]: () => clearInterval(timer) }
}

const HELP = `
It has no network, and a system that it cannot write to; what it changes in its copy stays there until it is copied
out (craik sandbox cp). A limit that cannot be held as a whole is named in the answer.

Examples:
  craik sandbox create --name parser --workspace .
  craik sandbox create --memory 2g --pids 512 --cpus 1.5
`
