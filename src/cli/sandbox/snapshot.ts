/** `craik sandbox snapshot`, `restore` and `fork`: save, replace and copy the disk of a sandbox. */
import { Command } from 'commander'
import { formatDuration } from '../../lib/duration.ts'
import type { SandboxBody } from '../../operator/api/bodies.ts'
import type { CallOptions } from '../../sdk/api-paths.ts'
import { withCommandGrant } from '../command-grant.ts'
import type { CliContext } from '../context.ts'
import { grantOption } from '../grant-option.ts'
import { formatOption, printable, printNote, printRecord } from '../output.ts'
import { countingSeconds, Progress } from '../progress.ts'
import { describeContent, describeLeftOut } from '../snapshot/describe-snapshot.ts'
import { formatBytes } from './amounts.ts'
import { connect } from './connect-supervisor.ts'
import { beginningLines, describeIsolation } from './describe-sandbox.ts'

/** The lifetime of the grant. Craik reads the disk, which may be large, before it creates anything. */
const FORK_GRANT_MS = 3600_000

interface SnapshotOptions {
  readonly name?: string
  readonly from?: string
  readonly grant?: string
  readonly format?: string
}

export function takeSnapshotCommand(context: CliContext): Command {
  return new Command('snapshot')
    .description('save the home and the workspace copy of a sandbox')
    .argument('<id>', 'id or name')
    .option('--name <name>', 'name of the snapshot')
    .addOption(grantOption())
    .addOption(formatOption())
    .addHelpText('after', SNAPSHOT_HELP)
    .action(async (id: string, options: SnapshotOptions) => {
      using client = await connect(context)
      const startedMs = performance.now()
      const snapshot = await withProgress(context, `reading the disk of ${printable(id)},`, () =>
        client.snapshots.make(
          id,
          options.name === undefined ? {} : { name: options.name },
          callOf(context, options),
        ),
      )
      const leftOut = describeLeftOut(snapshot)
      printRecord(context, options, snapshot as never, () =>
        [
          `  snapshot ${printable(snapshot.name)} · ${describeContent(snapshot)} · archive ${formatBytes(snapshot.archive_bytes)} · ${formatDuration(performance.now() - startedMs)}\n`,
          leftOut === undefined ? '' : `  skipped  ${printable(leftOut)}\n`,
          `  digest   ${snapshot.digest}\n`,
          `  next     craik sandbox restore ${printable(id)} ${snapshot.name}\n`,
        ].join(''),
      )
      if (!snapshot.content.still)
        printNote(
          context,
          `craik: the sandbox kept running while its disk was read (${snapshot.content.changed} files changed)\n`,
        )
    })
}

export function restoreCommand(context: CliContext): Command {
  return new Command('restore')
    .description('replace the disk of a sandbox with that of a snapshot')
    .argument('<id>', 'id or name of the sandbox')
    .argument('<snapshot>', 'id or name of the snapshot')
    .addOption(grantOption())
    .addOption(formatOption())
    .addHelpText('after', RESTORE_HELP)
    .action(async (id: string, snapshot: string, options: SnapshotOptions) => {
      using client = await connect(context)
      const startedMs = performance.now()
      const sandbox = await withProgress(context, `restoring ${printable(id)},`, () =>
        client.snapshots.restore(id, snapshot, callOf(context, options)),
      )
      printSandbox(context, options, 'restored', sandbox, startedMs)
    })
}

export function forkCommand(context: CliContext): Command {
  return new Command('fork')
    .description('create a sandbox with the disk, limits and policy of another, but not its logins')
    .argument('<id>', 'id or name')
    .option('--from <snapshot>', 'start with this snapshot of the sandbox (default: with its current disk)')
    .option('--name <name>', 'name of the new sandbox')
    .addOption(formatOption())
    .addHelpText('after', FORK_HELP)
    .action(async (id: string, options: SnapshotOptions) => {
      using client = await connect(context)
      const startedMs = performance.now()
      const { name, from } = options
      const grant = {
        capability: 'sandbox.create',
        operation: 'create',
        ...(name !== undefined && { target: `sandbox/${name}` }),
        command: 'craik sandbox fork',
        lifetimeMs: FORK_GRANT_MS,
      } as const
      const sandbox = await withProgress(context, `forking ${printable(id)},`, () =>
        withCommandGrant(context, grant, (grantId) =>
          client.snapshots.fork(
            id,
            { ...(name !== undefined && { name }), ...(from !== undefined && { from }) },
            { signal: context.signal, grantId },
          ),
        ),
      )
      printSandbox(context, options, 'forked', sandbox, startedMs)
    })
}

function callOf(context: CliContext, { grant }: SnapshotOptions): CallOptions {
  return { signal: context.signal, ...(grant !== undefined && { grantId: grant }) }
}

async function withProgress<T>(context: CliContext, label: string, work: () => Promise<T>): Promise<T> {
  using progress = new Progress(context, label, ' s')
  using _ = countingSeconds(progress)
  return await work()
}

function printSandbox(
  context: CliContext,
  options: SnapshotOptions,
  what: string,
  sandbox: SandboxBody,
  startedMs: number,
): void {
  const facts = [
    printable(sandbox.name),
    describeIsolation(sandbox),
    sandbox.state,
    formatDuration(performance.now() - startedMs),
  ]
  printRecord(context, options, sandbox as never, () =>
    [
      `  ${what.padEnd(8)} ${facts.join(' · ')}\n`,
      beginningLines(sandbox),
      `  next     craik sandbox ${sandbox.state === 'running' ? 'shell' : 'resume'} ${sandbox.name}\n`,
    ].join(''),
  )
}

const SNAPSHOT_HELP = `
Craik freezes the sandbox while it reads the disk. If that is not possible, the
sandbox runs on meanwhile: Craik still makes the snapshot, and prints a warning.

Logins (such as ~/.ssh, ~/.aws and ~/.netrc), /tmp and volumes are not saved:
see docs/reference/snapshots.md. The output counts what else was not saved, such
as sockets. Delete a snapshot with craik snapshot delete.

Example:
  craik sandbox snapshot parser --name parser-before
`
const RESTORE_HELP = `
Craik creates and checks the new disk first, and removes the old one only when
the sandbox works with the new one. Running commands are stopped. The sandbox
runs afterwards if it ran before.

Example:
  craik sandbox restore parser parser-before
`
const FORK_HELP = `
Example:
  craik sandbox fork parser --name parser-try
`
