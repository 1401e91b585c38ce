/** `craik snapshot export`: writes a snapshot to a file on this host, or sends it to a remote destination. */
import { lstat } from 'node:fs/promises'
import { Command } from 'commander'
import { CraikError } from '../../errors.ts'
import type { ExportBody } from '../../operator/api/requests.ts'
import type { ApiClient } from '../../sdk/client.ts'
import type { CliContext } from '../context.ts'
import { grantOption } from '../grant-option.ts'
import { formatOption, printable, printNote, printRecord } from '../output.ts'
import { countingSeconds, Progress } from '../progress.ts'
import { formatBytes } from '../sandbox/amounts.ts'
import { connect } from '../sandbox/connect-supervisor.ts'
import { LocalFile, openDestination } from '../sandbox/local-file.ts'
import { TransferBar } from '../sandbox/transfer-bar.ts'

interface ExportOptions {
  readonly force?: boolean
  readonly endpoint?: string
  readonly region?: string
  readonly accessKeyRef?: string
  readonly secretKeyRef?: string
  readonly sessionTokenRef?: string
  readonly allowPrivateAddress?: boolean
  readonly grant?: string
  readonly format?: string
}

interface Exported {
  readonly to: string
  readonly bytes: number
  readonly digest: string
  readonly receipt_id?: string
}

export function exportSnapshotCommand(context: CliContext): Command {
  return new Command('export')
    .description('write a snapshot to a file, or send it to an https:// or s3:// destination')
    .argument('<id>', 'id or name')
    .argument('<destination>', 'a file, https://HOST/PATH, or s3://BUCKET/KEY')
    .option('--force', 'replace an existing file')
    .option('--endpoint <url>', 'URL of an S3-compatible store (default: Amazon S3)')
    .option('--region <name>', 'region of the store (default: us-east-1)')
    .option('--access-key-ref <secret>', 'name of the secret that holds the access key id')
    .option('--secret-key-ref <secret>', 'name of the secret that holds the secret key')
    .option('--session-token-ref <secret>', 'name of the secret that holds the session token')
    .option('--allow-private-address', 'allow an address outside the public internet')
    .addOption(grantOption())
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async (id: string, destination: string, options: ExportOptions) => {
      if (destination === '')
        throw new CraikError('usage', 'the destination is empty', { hint: 'use . for this folder' })
      using client = await connect(context)
      const { name, variables } = await client.snapshots.get(id, { signal: context.signal })
      const isOutside = /^[a-z0-9+.-]+:\/\//i.test(destination)
      const exported = isOutside
        ? await send(context, client, id, destination, options)
        : await writeFile(context, client, { id, name }, destination, options)
      printRecord(
        context,
        options,
        { ...exported },
        () =>
          `  exported ${formatBytes(exported.bytes)} to ${printable(exported.to)}\n  digest   ${exported.digest}\n`,
      )
      // Everybody who gets the file can read the values. A secret should be a reference instead.
      if (variables.length > 0)
        printNote(
          context,
          `  it contains the values of these variables in plain text: ${printable(variables.join(', '))}\n`,
        )
    })
}

/** The supervisor sends it. It decides which destination and which secret the request may use, and records that. */
async function send(
  context: CliContext,
  client: ApiClient,
  id: string,
  destination: string,
  options: ExportOptions,
): Promise<Exported> {
  const { endpoint, region, accessKeyRef, secretKeyRef, sessionTokenRef, allowPrivateAddress } = options
  const body: ExportBody = {
    destination,
    ...(endpoint !== undefined && { endpoint }),
    ...(region !== undefined && { region }),
    ...(accessKeyRef !== undefined && { access_key_ref: accessKeyRef }),
    ...(secretKeyRef !== undefined && { secret_key_ref: secretKeyRef }),
    ...(sessionTokenRef !== undefined && { session_token_ref: sessionTokenRef }),
    ...(allowPrivateAddress && { allow_private_address: true }),
  }
  using progress = new Progress(context, 'sending the snapshot,', ' s')
  using _ = countingSeconds(progress)
  const { host, bytes, digest, receipt_id } = await client.snapshots.export(
    id,
    body,
    callOf(context, options),
  )
  return { to: host, bytes, digest, receipt_id }
}

async function writeFile(
  context: CliContext,
  client: ApiClient,
  { id, name }: { readonly id: string; readonly name: string },
  destination: string,
  options: ExportOptions,
): Promise<Exported> {
  const at = await openDestination(destination, `${name}.craik-snapshot.tar`)
  try {
    const isThere = await lstat(at.folder.at(at.name)).then(
      () => true,
      () => false,
    )
    if (isThere && !options.force) throw fileExistsError(at.name)
    const { bytes, digest, chunks } = await client.snapshots.read(id, callOf(context, options))
    await using file = await LocalFile.create(at, bytes)
    using bar = new TransferBar(context, 'writing', bytes)
    let written = 0
    for await (const chunk of chunks) {
      await file.write(chunk)
      written += chunk.length
      bar.set(written)
    }
    await file.commit(0o600, !options.force).catch((error) => {
      throw error instanceof CraikError && error.code === 'conflict' ? fileExistsError(at.name) : error
    })
    return { to: destination, bytes, digest }
  } finally {
    await at.folder.close()
  }
}

function callOf(context: CliContext, { grant }: ExportOptions) {
  return { signal: context.signal, ...(grant !== undefined && { grantId: grant }) }
}

function fileExistsError(name: string): CraikError {
  return new CraikError('conflict', `the file ${name} already exists`, {
    hint: 'choose another name, or replace the file with --force',
  })
}

const HELP = `
Craik sends only over https, follows no redirects, and sends to private
addresses only with --allow-private-address. For s3://, store both keys first
(craik secret set S3_ID, craik secret set S3_KEY), then name those secrets here.

Examples:
  craik snapshot export parser-before parser.tar
  craik snapshot export parser-before s3://backups/parser.tar \\
    --access-key-ref S3_ID --secret-key-ref S3_KEY
`
