/** `craik snapshot import`: imports an exported file as a snapshot, after checking all of it. */
import { constants, createReadStream } from 'node:fs'
import { open } from 'node:fs/promises'
import { Command } from 'commander'
import { CraikError } from '../../errors.ts'
import type { SnapshotBody } from '../../operator/api/bodies.ts'
import { withCommandGrant } from '../command-grant.ts'
import type { CliContext } from '../context.ts'
import { formatOption, printable, printRecord } from '../output.ts'
import { connect } from '../sandbox/connect-supervisor.ts'
import { TransferBar } from '../sandbox/transfer-bar.ts'
import { describeContent } from './describe-snapshot.ts'

interface ImportOptions {
  readonly name?: string
  readonly digest?: string
  readonly format?: string
}

export function importCommand(context: CliContext): Command {
  return new Command('import')
    .description('import a snapshot from a file')
    .argument('<file>', 'file that craik snapshot export wrote')
    .option('--name <name>', 'name for the snapshot (default: its original name)')
    .option('--digest <digest>', 'fail unless the snapshot has this digest (see craik snapshot show)')
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async (path: string, options: ImportOptions) => {
      using client = await connect(context)
      const bytes = await sizeOf(path)
      const grant = {
        capability: 'sandbox.snapshot',
        operation: 'import',
        target: 'snapshot/new',
        command: 'craik snapshot import',
      } as const
      let sent = 0
      const { name, digest } = options
      const about = { ...(name !== undefined && { name }), ...(digest !== undefined && { digest }) }
      let snapshot: SnapshotBody
      {
        using bar = new TransferBar(context, 'reading', bytes)
        snapshot = await withCommandGrant(context, grant, (grantId) =>
          client.snapshots.import(
            () => {
              sent = 0
              return createReadStream(path).on('data', (chunk) => {
                sent += chunk.length
                bar.set(sent)
              })
            },
            about,
            { signal: context.signal, grantId },
          ),
        )
      }
      printRecord(context, options, snapshot as never, () =>
        [
          `  imported ${printable(snapshot.name)} · ${describeContent(snapshot)}\n`,
          `  digest   ${snapshot.digest}\n`,
          `  next     craik sandbox create --from ${snapshot.name}\n`,
        ].join(''),
      )
    })
}

async function sizeOf(path: string): Promise<number> {
  try {
    const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
    try {
      const found = await file.stat()
      if (!found.isFile())
        throw new CraikError('usage', `cannot import a snapshot: ${path} is not a regular file`, {
          hint: 'use the file that  craik snapshot export  wrote',
        })
      return found.size
    } finally {
      await file.close()
    }
  } catch (cause) {
    if (cause instanceof CraikError) throw cause
    const { code } = cause as NodeJS.ErrnoException
    throw new CraikError('not_found', `cannot read the file ${path} (${code})`, {
      hint: 'check the path',
      cause,
    })
  }
}

const HELP = `
Craik checks the file completely before it lists the snapshot.

Example:
  craik snapshot import parser.tar --name parser-from-ada
`
