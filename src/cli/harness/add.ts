/** `craik harness add`: copies a harness into the home of a running sandbox. */
import { randomBytes } from 'node:crypto'
import { Command } from 'commander'
import { CraikError } from '../../errors.ts'
import { HARNESS_MANIFEST } from '../../sandboxes/harness-package.ts'
import type { ApiClient } from '../../sdk/client.ts'
import { readFile } from '../../sdk/transfer.ts'
import { INSIDE } from '../../sidecar/protocol.ts'
import type { CliContext } from '../context.ts'
import { formatOption, printRecord } from '../output.ts'
import { formatBytes, quoteText } from '../sandbox/amounts.ts'
import { connect } from '../sandbox/connect-supervisor.ts'
import { copyFolderIn, statInside } from '../sandbox/copy-in.ts'
import { harnessNamesFrom } from './harness-names.ts'
import { installHarnesses } from './install-with-bar.ts'
import { replaceFolder } from './replace-folder.ts'

interface AddOptions {
  readonly sandbox: string
  readonly format?: string
}

const ALL_INSIDE = `${INSIDE.home}/${INSIDE.addedHarnesses}`
const MAX_MANIFEST_BYTES = 64 * 1024

export function addCommand(context: CliContext): Command {
  return new Command('add')
    .description('add a harness to the home of a running sandbox')
    .argument('<name>', 'harness, such as codex')
    .requiredOption('--sandbox <sandbox>', 'sandbox id or name')
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async (name: string, options: AddOptions) => {
      const names = await harnessNamesFrom(name)
      if (names.length !== 1)
        throw new CraikError(
          'usage',
          `${quoteText(name)} names ${names.length} harnesses: add one at a time`,
          {
            hint: `start with one:  craik harness add ${names[0] ?? 'codex'} --sandbox ${options.sandbox}`,
          },
        )
      using client = await connect(context)
      const sandbox = await client.sandboxes.get(options.sandbox, { signal: context.signal })
      requireOwnRoot(sandbox)
      const [harness] = await installHarnesses(context, names, true)
      const { id, version, folder } = harness!
      const isNew = !(await isInside(context, client, sandbox.id, names[0]!, id))
      const bytes = isNew ? await installHarness(context, client, sandbox.id, names[0]!, folder) : 0
      const record = {
        sandbox_id: sandbox.id,
        name,
        version,
        id,
        at: `${ALL_INSIDE}/${name}`,
        added: isNew,
        bytes,
      }
      printRecord(context, options, record, () =>
        isNew
          ? `  added  ${name} ${version}  ${formatBytes(bytes)} · ${record.at}/bin is on the PATH of new commands\n`
          : `  ${name} ${version} is already installed\n`,
      )
    })
}

function requireOwnRoot({ isolation, name }: { readonly isolation: string; readonly name: string }): void {
  if (isolation !== 'none') return
  throw new CraikError(
    'conflict',
    `cannot add a harness: sandbox ${name} is not isolated (--isolation none) and uses the host’s programs`,
    {
      hint: 'install the harness on this machine, or create an isolated sandbox:  craik sandbox create',
    },
  )
}

/** Reads what the sandbox itself reports. A false report deceives only programs in that sandbox. */
async function isInside(
  { signal }: CliContext,
  client: ApiClient,
  sandbox: string,
  name: string,
  id: string,
): Promise<boolean> {
  const path = `${ALL_INSIDE}/${name}/${HARNESS_MANIFEST}`
  const found = await statInside(client, sandbox, path, signal)
  if (found?.type !== 'file') return false
  const chunks: Buffer[] = []
  for await (const chunk of readFile(client, sandbox, path, { signal, length: MAX_MANIFEST_BYTES }))
    chunks.push(chunk)
  try {
    return (JSON.parse(Buffer.concat(chunks).toString()) as { id?: unknown }).id === id
  } catch {
    return false
  }
}

/** Copies the harness under a temporary name and renames it when it is complete. Removes the previous version last. */
async function installHarness(
  context: CliContext,
  client: ApiClient,
  sandbox: string,
  name: string,
  folder: string,
): Promise<number> {
  const { signal } = context
  const mark = randomBytes(4).toString('hex')
  const [target, coming, going] = [name, `.${name}-${mark}`, `.${name}-${mark}-old`].map(
    (one) => `${ALL_INSIDE}/${one}`,
  )
  await client.files.mkdir(sandbox, coming!, { parents: true, signal })
  try {
    const source = { folder, files: 0, bytes: await treeBytes(folder), exclude: () => false }
    const { bytes } = await copyFolderIn(context, client, sandbox, coming!, source)
    await replaceFolder(client, sandbox, { target: target!, coming: coming!, going: going! }, signal)
    return bytes
  } catch (error) {
    // Does not pass the signal, because its abort may be the cause of the failure.
    await client.files.remove(sandbox, coming!, { recursive: true }).catch(() => {})
    throw error
  }
}

async function treeBytes(folder: string): Promise<number> {
  const { readManifest } = await import('../../harnesses/packages/harness-manifest.ts')
  return (await readManifest(folder))?.bytes ?? 0
}

const HELP = `
Copies the harness to the home of the sandbox, completely or not at all. The
copy uses disk space of the sandbox and is deleted with the sandbox. A harness
that you name in craik sandbox create --harness is mounted, and uses none.

Example:
  craik harness add kimi --sandbox parser
`
