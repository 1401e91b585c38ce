/** `craik sandbox cp`: copies files and folders into a sandbox and out of it. */
import { basename, posix, resolve } from 'node:path'
import { Command } from 'commander'
import { CraikError, ERRORS } from '../../errors.ts'
import { formatDuration } from '../../lib/duration.ts'
import type { ApiClient } from '../../sdk/client.ts'
import type { CliContext } from '../context.ts'
import { formatOption, printable, printNote, printRecord } from '../output.ts'
import { Progress } from '../progress.ts'
import { allowCopy, formatBytes, formatFileCount, parseBytes } from './amounts.ts'
import { connect } from './connect-supervisor.ts'
import { copyFileIn, copyFolderIn, insideName, kindOfLocal, statInside } from './copy-in.ts'
import { type Copied, copyOut } from './copy-out.ts'
import { type CopySpec, parseCopy, STDOUT } from './copy-spec.ts'
import { measureFolder } from './measure-workspace.ts'

interface CopyOptions {
  readonly maxCopy: string
  readonly includeUnsafe?: boolean
  readonly format?: string
}

export function cpCommand(context: CliContext): Command {
  return new Command('cp')
    .description('copy a file or folder into or out of a sandbox')
    .argument('<source>', 'LOCAL or SANDBOX:PATH, where SANDBOX is an id or a name')
    .argument('<destination>', 'the other of the two, or - for standard output')
    .option('--max-copy <size>', 'maximum size of the copy', '16g')
    .option(
      '--include-unsafe',
      'also copy out files that git, a shell, an editor or an agent on this machine would run or trust: .git, .envrc, .vscode, … (default: held back)',
    )
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async (source: string, destination: string, options: CopyOptions) => {
      const spec = parseCopy(source, destination)
      const maxBytes = parseBytes(options.maxCopy, '--max-copy')
      const { includeUnsafe = false } = options
      if (spec.direction === 'in') {
        if (includeUnsafe)
          throw new CraikError('usage', '--include-unsafe applies only to copies out of a sandbox', {
            hint: 'remove --include-unsafe: a copy into a sandbox holds nothing back',
          })
        await kindOfLocal(spec.local)
      }
      using client = await connect(context)
      const { id } = await client.sandboxes.get(spec.sandbox, { signal: context.signal })
      const startedMs = performance.now()
      const copying =
        spec.direction === 'in'
          ? copyIn(context, client, id, spec, maxBytes)
          : copyOut(context, client, id, spec, { maxBytes, includeUnsafe })
      const copied = await copying.catch((error) => {
        throw asTyped(error, id, spec.sandbox)
      })
      if (spec.local !== STDOUT) print(context, options, source, copied, performance.now() - startedMs)
    })
}

/** Names the sandbox in hints as the user did. */
function asTyped(error: unknown, id: string, typed: string): unknown {
  if (!(error instanceof CraikError) || !error.hint.includes(id)) return error
  return new CraikError(error.code, error.message, {
    // A hint about a grant has to name the sandbox by its id.
    hint: error.code === 'denied' ? error.hint : error.hint.replaceAll(id, typed),
    ...(error.details && { details: error.details }),
    cause: error.cause,
  })
}

/** Nothing is held back, because a sandbox may get any file. */
const NOTHING_HELD = { heldBack: [], heldBackCount: 0 } as const

async function copyIn(
  context: CliContext,
  client: ApiClient,
  sandbox: string,
  spec: CopySpec,
  maxBytes: number,
): Promise<Copied> {
  if ((await kindOfLocal(spec.local)) === 'file') {
    const { to, bytes } = await copyFileIn(context, client, sandbox, spec, maxBytes)
    return {
      to: displaySandboxPath(spec, to),
      files: 1,
      bytes,
      skipped: [],
      skippedCount: 0,
      ...NOTHING_HELD,
    }
  }
  const to = await folderInside(context, client, sandbox, spec)
  using progress = new Progress(context, 'scanning the folder:')
  const source = await measureFolder(
    context,
    resolve(spec.local),
    { maxBytes, allow: allowCopy },
    (entries) => progress.tick(entries),
  )
  const copied = await copyFolderIn(context, client, sandbox, to, source)
  return { to: displaySandboxPath(spec, to), ...copied, ...NOTHING_HELD }
}

function displaySandboxPath({ sandbox }: CopySpec, path: string): string {
  return `${sandbox}:${path}`
}

/** As for cp, uses the folder's own name in an existing folder, otherwise the name that the user wrote. */
async function folderInside(
  context: CliContext,
  client: ApiClient,
  sandbox: string,
  { local, inside }: CopySpec,
): Promise<string> {
  const found = await statInside(client, sandbox, inside, context.signal)
  if (found === undefined) return inside
  if (found.type === 'file')
    throw new CraikError('conflict', `${inside} in the sandbox is a file: a folder cannot replace it`, {
      hint: 'choose another name, or remove the file first',
    })
  if (local === '.' || local.endsWith('/.')) return inside
  const name = basename(resolve(local))
  if (found.type === 'folder') return posix.join(inside, name)
  return insideName(client, sandbox, inside, name, context.signal)
}

const ADVICE = '  review them in the sandbox; to copy them too, add --include-unsafe\n'
/** A copied `.git` overwrites branches and the index of the user's own repository. */
const GIT_ADVICE = `  to bring back commits, use git format-patch (docs/how-to/copy-files.md)
  for the other files: review them in the sandbox, then add --include-unsafe; it also copies .git, over files in your own .git
`
const isOfGit = (path: string) => path.split('/').includes('.git')

/** A line shows this many names. */
const SHOWN = 3

function print(
  context: CliContext,
  options: CopyOptions,
  source: string,
  { to: destination, files, bytes, skipped, skippedCount, heldBack, heldBackCount }: Copied,
  durationMs: number,
): void {
  const record = {
    source,
    destination,
    files,
    bytes,
    skipped: [...skipped],
    skipped_count: skippedCount,
    held_back: [...heldBack],
    held_back_count: heldBackCount,
  }
  printRecord(context, options, record, () => {
    const what = `${printable(source)} → ${printable(destination)}`
    return `  copied   ${what} · ${formatFileCount(files)} · ${formatBytes(bytes)} · ${formatDuration(durationMs)}\n`
  })
  if (skippedCount > 0) {
    const entries = skippedCount === 1 ? '1 entry' : `${skippedCount.toLocaleString('en')} entries`
    const names = skipped.slice(0, SHOWN).map(printable).join(', ')
    printNote(context, `craik: skipped ${entries}: ${names}${skippedCount > SHOWN ? ' …' : ''}\n`)
  }
  if (heldBackCount > 0) {
    const entries = heldBackCount === 1 ? '1 entry' : `${heldBackCount.toLocaleString('en')} entries`
    const names = heldBack.slice(0, SHOWN).map(printable).join(', ')
    printNote(
      context,
      `craik: held back ${entries} that git, a shell, an editor or an agent on this machine would run or trust: ${names}${heldBack.length > SHOWN ? ' …' : ''}\n${heldBack.some(isOfGit) ? GIT_ADVICE : ADVICE}`,
    )
    if (files === 0) context.setExitCode(ERRORS.held_back.exit)
  }
}

const HELP = `
Paths in a sandbox are relative to its workspace. As with cp -r, a folder is
copied into the destination folder if that exists, otherwise under that name.
folder/. means the contents of a folder. Links stay links; links that lead
outside the copy are skipped. Write a local name with a colon as ./a:b.

Without --include-unsafe, Craik does not copy out files that git, a shell, an
editor or an agent on this machine would run or trust (.git, .envrc, .vscode,
…). If there is nothing else to copy, the exit code is 90. To bring back
commits, use git format-patch: docs/how-to/copy-files.md

Examples:
  craik sandbox cp notes.txt parser:notes.txt
  craik sandbox cp parser:src ./src-of-parser
`
