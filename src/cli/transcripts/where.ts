/** Selects the transcripts of a command: those of a sandbox, of a folder, or of the user. */
import { realpathSync } from 'node:fs'
import { homedir } from 'node:os'
import { resolve } from 'node:path'
import { type Command, Option } from 'commander'
import { CraikError } from '../../errors.ts'
import { LoginRecords } from '../../login-sandbox/login-records.ts'
import type { SandboxBody } from '../../operator/api/bodies.ts'
import { redactText } from '../../receipts/redaction/redact.ts'
import { TRANSCRIPT_HARNESSES, type TranscriptHarness } from '../../transcripts/conversation.ts'
import type { FindOptions } from '../../transcripts/find-transcripts.ts'
import { homeFolder } from '../../transcripts/home-folder.ts'
import type { CliContext } from '../context.ts'
import { transcriptDeps } from '../login-sandbox/transcript-deps.ts'
import { printable, printNote } from '../output.ts'
import { connect } from '../sandbox/connect-supervisor.ts'
import { sandboxHome } from './sandbox-home.ts'
import { SkippedContent } from './skipped-content.ts'

export interface WhereOptions {
  readonly sandbox?: string
  readonly home?: string
  readonly harness?: TranscriptHarness
  readonly format?: string
}

export interface TranscriptSelection extends FindOptions {
  /** A sandbox's id, `login/NAME` for a login sandbox, or a folder. */
  readonly scope: string
  readonly sandbox?: string
}

export function addWhere(command: Command): Command {
  return command
    .option('--sandbox <id>', 'read this sandbox, by id or name; it must run, or be a login sandbox')
    .option('--home <folder>', 'read this home folder (default: your own)')
    .addOption(
      new Option('--harness <name>', 'only conversations with this harness (program of an agent)').choices(
        TRANSCRIPT_HARNESSES,
      ),
    )
}

export async function withTranscriptSource<T>(
  context: CliContext,
  options: WhereOptions,
  work: (selection: TranscriptSelection) => Promise<T>,
): Promise<T> {
  if (options.sandbox !== undefined && options.home !== undefined)
    throw new CraikError('usage', '--sandbox cannot be combined with --home', {
      hint: 'omit --home:  craik transcripts list --sandbox ID',
    })
  const skipped = new SkippedContent()
  const common = {
    redact: (text: string) => redactText(text).text,
    signal: context.signal,
    onProblem: skipped.problem,
    onSkipped: skipped.passedOver,
    ...(options.harness !== undefined && { harnesses: [options.harness] }),
  }
  try {
    if (options.sandbox === undefined) {
      const home = homeOf(context, options)
      const source = homeFolder(home, { signal: context.signal, onProblem: skipped.problem })
      return await work({ ...common, source, scope: realFolder(home) })
    }
    using client = await connect(context)
    const sandbox = await client.sandboxes.get(options.sandbox, { signal: context.signal })
    requireHome(sandbox)
    const { id } = sandbox
    const login = new LoginRecords(context.home.loginSandboxes).list().find((one) => one.sandboxId === id)
    if (login !== undefined)
      return await work({ ...common, ...transcriptDeps(context, login.login, skipped.problem) })
    const source = sandboxHome(client, id, context.signal)
    return await work({ ...common, source, scope: id, sandbox: id })
  } finally {
    printNote(context, skipped.lines())
  }
}

function homeOf({ environment }: CliContext, { home }: WhereOptions): string {
  if (home === '')
    throw new CraikError('usage', '--home is empty', { hint: 'omit --home to use your own home' })
  return resolve(home ?? (environment.HOME || homedir()))
}

/** Resolves links, so that a folder has the same scope under each of its names. */
function realFolder(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    return path
  }
}

function requireHome({ isolation, name }: SandboxBody): void {
  if (isolation !== 'none') return
  throw new CraikError(
    'usage',
    `cannot read conversations in ${printable(name)}: it is not isolated (--isolation none) and has no home of its own`,
    {
      hint: 'list the conversations in your own home:  craik transcripts list',
    },
  )
}
