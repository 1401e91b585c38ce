/** Copies from a sandbox to the host. The content is hostile, so Craik writes it only where the user asked for it. */
import { posix } from 'node:path'
import { PassThrough } from 'node:stream'
import { CraikError } from '../../errors.ts'
import { newId } from '../../lib/ids.ts'
import type { OpenFolder } from '../../lib/safe-tar/open-folder.ts'
import {
  type HoldBack,
  type HoldBackReport,
  type UnpackLimits,
  unpackInto,
} from '../../lib/safe-tar/unpack.ts'
import { quoteArgument } from '../../lib/shlex.ts'
import type { ApiClient } from '../../sdk/client.ts'
import { readFile, tarOut } from '../../sdk/transfer.ts'
import type { CliContext } from '../context.ts'
import { allowCopy, formatBytes } from './amounts.ts'
import { statInside } from './copy-in.ts'
import { requireSafe } from './copy-safety.ts'
import { type CopySpec, STDOUT } from './copy-spec.ts'
import { ErrorLines, giveUpJob, jobFailure } from './job-failure.ts'
import {
  enterFolder,
  freeBytes,
  type LocalDestination,
  LocalFile,
  openDestination,
  openFolderAt,
} from './local-file.ts'
import { TransferBar } from './transfer-bar.ts'
import { writeTo } from './write-output.ts'

const MAX_ENTRIES = 2_000_000

export interface Copied {
  /** The path of the copy, in the form in which the user wrote the destination. */
  readonly to: string
  readonly files: number
  readonly bytes: number
  readonly skipped: readonly string[]
  readonly skippedCount: number
  /** The first hundred paths that were held back because programs on the host run or trust them. */
  readonly heldBack: readonly string[]
  readonly heldBackCount: number
}

export interface CopyOutOptions {
  readonly maxBytes: number
  /** Also copies files that programs on the host run or trust. */
  readonly includeUnsafe: boolean
}

const NOTHING_LEFT = { skipped: [], skippedCount: 0, heldBack: [], heldBackCount: 0 } as const

export async function copyOut(
  context: CliContext,
  client: ApiClient,
  sandbox: string,
  spec: CopySpec,
  options: CopyOutOptions,
): Promise<Copied> {
  const { maxBytes } = options
  const found = await statInside(client, sandbox, spec.inside, context.signal)
  if (found === undefined)
    throw new CraikError('not_found', `no such file or folder in the sandbox: ${spec.inside}`, {
      hint: `list the files:  craik sandbox exec ${spec.sandbox} -- ls -la`,
    })
  if (found.type === 'folder' && spec.local === STDOUT)
    throw new CraikError('usage', `cannot write the folder ${spec.inside} to standard output`, {
      hint: `write an archive of the folder:  craik sandbox exec ${spec.sandbox} -- tar -c ${quoteArgument(spec.inside)}`,
    })
  if (found.type === 'folder') return copyFolderOut(context, client, sandbox, spec, options)
  if (found.type !== 'file' && found.type !== 'link')
    throw new CraikError(
      'usage',
      `cannot copy ${spec.inside}, a ${found.type}: only files and folders can be copied`,
      { hint: 'choose a file or a folder' },
    )
  if (found.bytes > maxBytes)
    throw tooLargeError(spec.inside, maxBytes, `allow more: ${allowCopy(found.bytes)}`)
  const { bytes, mode } = found.type === 'file' ? found : { bytes: 0, mode: 0o644 }
  if (spec.local === STDOUT) return printFile(context, client, sandbox, spec.inside, maxBytes)
  return copyFileOut(context, client, sandbox, spec, { bytes, mode, ...options })
}

/** A link is read as its target in the sandbox, so its size is known only after reading it. */
async function copyFileOut(
  context: CliContext,
  client: ApiClient,
  sandbox: string,
  { inside, local }: CopySpec,
  {
    bytes,
    mode,
    maxBytes,
    includeUnsafe,
  }: CopyOutOptions & { readonly bytes: number; readonly mode: number },
): Promise<Copied> {
  const { signal } = context
  const destination = await openDestination(local, nameOf(inside))
  try {
    if (!includeUnsafe) await requireSafe(destination, context)
    await using file = await LocalFile.create(destination, bytes)
    using bar = new TransferBar(context, 'copying', bytes)
    let copied = 0
    for await (const chunk of readFile(client, sandbox, inside, { signal })) {
      copied += chunk.length
      if (copied > maxBytes) throw tooLargeError(inside, maxBytes, formatSizeCommand(sandbox, inside, '-shL'))
      await file.write(chunk)
      bar.set(copied)
    }
    await file.commit(mode)
    return { to: displayPath(local, destination), files: 1, bytes: copied, ...NOTHING_LEFT }
  } finally {
    await destination.folder.close()
  }
}

async function printFile(
  context: CliContext,
  client: ApiClient,
  sandbox: string,
  inside: string,
  maxBytes: number,
): Promise<Copied> {
  let bytes = 0
  for await (const chunk of readFile(client, sandbox, inside, { signal: context.signal })) {
    bytes += chunk.length
    if (bytes > maxBytes) throw tooLargeError(inside, maxBytes, formatSizeCommand(sandbox, inside, '-shL'))
    await writeTo(context.stdout, chunk)
  }
  return { to: STDOUT, files: 1, bytes, ...NOTHING_LEFT }
}

async function copyFolderOut(
  context: CliContext,
  client: ApiClient,
  sandbox: string,
  { inside, local }: CopySpec,
  { maxBytes, includeUnsafe }: CopyOutOptions,
): Promise<Copied> {
  // As for cp, `folder/.` means the contents of the folder.
  const contentsOnly = inside === '.' || inside.endsWith('/.')
  const destination = await (contentsOnly ? openFolderAt(local) : openDestination(local, nameOf(inside)))
  let target: OpenFolder
  let holdBack: HoldBack | undefined
  try {
    if (!includeUnsafe) holdBack = await requireSafe(destination, context)
    target = await enterFolder(destination)
  } finally {
    await destination.folder.close()
  }
  try {
    const free = await freeBytes(target)
    const limits = { entries: MAX_ENTRIES, bytes: Math.min(maxBytes, free) }
    const complaints = new ErrorLines()
    const report = await unpack(
      context,
      client,
      sandbox,
      { inside, local, holdBack },
      target,
      limits,
      complaints,
    ).catch((error) => {
      throw toLimitError(error, maxBytes, free, formatSizeCommand(sandbox, inside, '-sh'))
    })
    const { files, bytes, skipped, skippedCount, heldBack, heldBackCount } = report
    const left = skipped.map(({ path, reason }) => `${path} (${reason})`)
    return {
      to: displayPath(local, destination),
      files,
      bytes,
      heldBack,
      heldBackCount,
      skippedCount: skippedCount + complaints.ignoredCount,
      skipped: [...left, ...complaints.ignored],
    }
  } finally {
    await target.close()
  }
}

/** Unpacks the archive directly into the folder. A failure on either side ends the other. */
async function unpack(
  context: CliContext,
  client: ApiClient,
  sandbox: string,
  {
    inside,
    local,
    holdBack,
  }: Pick<CopySpec, 'inside' | 'local'> & { readonly holdBack?: HoldBack | undefined },
  target: OpenFolder,
  limits: UnpackLimits,
  complaints: ErrorLines,
): Promise<HoldBackReport> {
  const over = new AbortController()
  const signal = AbortSignal.any([context.signal, over.signal])
  const archive = new PassThrough({ highWaterMark: 1024 * 1024 })
  using bar = new TransferBar(context, 'copying', 0)
  const unpacking = unpackInto(target.path, archive, limits, signal, {
    // All entries are below the name of the packed folder.
    strip: 1,
    displayName: local,
    ...(holdBack && { holdBack }),
    onProgress: (bytes) => bar.set(bytes),
  })
  const jobId = newId('job', context.clock.nowMs())
  let isBegun = false
  let refusal: unknown
  const packing = tarOut(client, sandbox, inside, {
    jobId,
    signal,
    onStarted: () => {
      isBegun = true
    },
    onStdout: (chunk) => writeTo(archive, chunk),
    onStderr: complaints.push,
  }).then(({ result }) => {
    archive.end()
    return result
  })
  packing.catch((error) => {
    refusal = error
  })
  try {
    const [report, result] = await Promise.all([unpacking, packing])
    const failure = jobFailure('packing in the sandbox', sandbox, result, complaints)
    if (failure !== undefined) throw failure
    return report
  } catch (error) {
    const isUnanswered = !isBegun && (context.signal.aborted || error !== refusal)
    archive.destroy()
    over.abort(error)
    await Promise.allSettled([unpacking, packing])
    await giveUpJob(client, sandbox, jobId, isUnanswered)
    throw error
  }
}

/** Files that were unpacked before the limit stay, so the error has to say so. */
function toLimitError(error: unknown, maxBytes: number, free: number, hint: string): unknown {
  if (!(error instanceof CraikError) || error.details?.beyond !== 'bytes') return error
  const stay = 'files already written remain'
  const what = `with ${error.details.entry}, the folder is larger than`
  if (free < maxBytes)
    return new CraikError('disk_full', `${what} the ${formatBytes(free)} free on this disk; ${stay}`, {
      cause: error,
    })
  return new CraikError('too_large', `${what} ${formatBytes(maxBytes)}; ${stay}`, {
    hint,
    cause: error,
  })
}

function tooLargeError(inside: string, maxBytes: number, hint: string): CraikError {
  return new CraikError('too_large', `the file ${inside} is larger than ${formatBytes(maxBytes)}`, { hint })
}

/** Returns the command for a size that only the sandbox can measure. */
function formatSizeCommand(sandbox: string, inside: string, how: '-sh' | '-shL'): string {
  return `check its size, then raise --max-copy:  craik sandbox exec ${sandbox} -- du ${how} ${quoteArgument(inside)}`
}

/** Returns the path of the copy: below an existing folder, or as the user wrote it. */
function displayPath(local: string, { name, isIn }: LocalDestination): string {
  return isIn ? `${local.replace(/\/+$/, '')}/${name}` : local
}

/** Returns the last part of a path in the sandbox. A path without one needs a name on the host. */
function nameOf(inside: string): string {
  return posix.basename(posix.resolve('/workspace', inside))
}
