/** `craik shell '<command>'`: runs a command of the operator, with a receipt. */
import { constants } from 'node:os'
import { Command, Option } from 'commander'
import { CraikError } from '../errors.ts'
import type { Json } from '../lib/canonical-json.ts'
import { formatDuration, parseDuration } from '../lib/duration.ts'
import { joinCommand, quoteArgument } from '../lib/shlex.ts'
import { redactText } from '../receipts/redaction/redact.ts'
import type { CliContext } from './context.ts'
import { grantOption } from './grant-option.ts'
import { formatOption, printable, printNote, printRecord, resolveFormat } from './output.ts'

export function shellCommand(context: CliContext): Command {
  return (
    new Command('shell')
      .argument('<command>', 'one command line, in quotes; no globs, variables or pipes')
      .option('--timeout <duration>', 'stop the command after this time', '10m')
      .addOption(
        new Option(
          '--profile <profile>',
          'policy profile that decides whether this is allowed (craik policy show)',
        )
          .choices(['strict', 'automation', 'custom'])
          .default('strict'),
      )
      .addOption(grantOption())
      .addOption(formatOption())
      .addHelpText('after', HELP)
      .allowExcessArguments()
      // `craik shell ls -la` lacks a pair of quotes, so an error about an unknown option would mislead.
      .allowUnknownOption()
      .action(async (command: string, flags, { args }: Command) => {
        if (args.length > 1)
          throw new CraikError('usage', 'the command must be one argument: put it in quotes', {
            hint: `craik shell ${quoteArgument(joinCommand(args))}`,
          })
        const timeoutMs = parseDuration(flags.timeout, '--timeout')
        const workingDirectory = currentFolder()
        const { runShell, shellExitCode } = await import('../run/operator-shell.ts')
        const { PREVIEW_CHARACTERS } = await import('../run/side-log.ts')
        const live = resolveFormat(context, flags) === 'table'
        const shown = { stdout: 0, stderr: 0 }
        const result = await runShell(
          {
            store: await context.store(),
            log: await context.log(),
            home: context.home,
            clock: context.clock,
            environment: context.environment,
            operator: await context.operator(),
            signal: context.signal,
            killSignal: context.kill,
            backend: await context.processCommands(),
          },
          {
            command,
            workingDirectory,
            timeoutMs,
            profile: flags.profile,
            grantId: flags.grant,
            onOutput(stream, text) {
              if (!live || shown[stream] >= PREVIEW_CHARACTERS) return
              context[stream].write(text.slice(0, PREVIEW_CHARACTERS - shown[stream]))
              shown[stream] += text.length
            },
          },
        )
        const { run, stdout, stderr, receipt } = result
        if (run.end === 'not_started')
          printNote(context, `craik: ${printable(redactText(run.message).text)}\n`)
        const record: Json = {
          command: result.command,
          outcome: run.end,
          exit_code: run.end === 'exited' ? run.exitCode : null,
          signal: run.end === 'signalled' ? run.signal : null,
          duration_ms: run.durationMs,
          stdout: { preview: stdout.preview, bytes: stdout.bytes, sha256: stdout.sha256 },
          stderr: { preview: stderr.preview, bytes: stderr.bytes, sha256: stderr.sha256 },
          receipt_id: receipt.id,
        }
        if (!live) printRecord(context, flags, record, () => '')
        for (const [name, log] of Object.entries({ stdout, stderr })) {
          if (!live || log.bytes <= PREVIEW_CHARACTERS) continue
          printNote(
            context,
            `\n  … ${name} continues: ${log.bytes.toLocaleString('en')} bytes in state/shell-output/${log.sha256}.log\n`,
          )
        }
        if (live)
          printNote(context, `  ${ending(run)} · ${formatDuration(run.durationMs)} · receipt ${receipt.id}\n`)
        context.setExitCode(shellExitCode(run, constants.signals))
        if (run.end === 'timeout') {
          throw new CraikError('timeout', `the command ran longer than ${flags.timeout} and was stopped`)
        }
      })
  )
}

function currentFolder(): string {
  try {
    return process.cwd()
  } catch (error) {
    throw new CraikError('usage', 'the folder that this terminal is in was removed', {
      hint: 'change to an existing folder:  cd FOLDER',
      cause: error,
    })
  }
}

function ending(run: { readonly end: string; readonly exitCode?: number; readonly signal?: string }): string {
  if (run.end === 'exited') return `exit ${run.exitCode}`
  if (run.end === 'signalled') return `killed by ${run.signal}`
  return run.end.replace('_', ' ')
}

const HELP = `
Runs the command on this machine, not in a sandbox. Craik splits it into words
as a POSIX shell does, and runs it without a shell. On a terminal it prints the
beginning of the output, in a pipe a JSON record. The complete output is in
state/shell-output/ of the Craik home. Secrets in it are masked. The exit code
is that of the command.

Examples:
  craik shell 'npm test'
  craik shell --timeout 2m 'git log --oneline -5'
  craik shell --profile custom \\
    --grant grant_01JCQ3V8Z0W4N5T6R7Y8K9M2PD 'make deploy'
`
