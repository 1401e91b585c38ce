/** Prints what failed on one line, then what to do. It never prints a secret, and a stack only with CRAIK_DEBUG. */
import { CraikError } from '../errors.ts'
import { redactText } from '../receipts/redaction/redact.ts'
import type { CliContext } from './context.ts'
import { printable, printNote } from './output.ts'

/** Returns the exit code. */
export async function reportError(context: CliContext, thrown: unknown): Promise<number> {
  const error = thrown instanceof CraikError ? thrown : toInternalError(thrown)
  const line = (text: string) => printable(redactText(text).text).replaceAll('\n', ' ')
  if (error.code === 'interrupted') {
    context.stderr.write('\n')
    // The user knows of the interruption, and not always of its outcome.
    if (error.message.startsWith('interrupted; ')) printNote(context, `craik: ${line(error.message)}\n`)
    return error.exitCode
  }
  printNote(context, `craik: ${withoutRepeatedNoun(line(error.message))}\n`)
  if (error.hint !== '') printNote(context, `  ${line(error.hint)}\n`)
  if (context.environment.CRAIK_DEBUG) context.stderr.write(`${redactText(stackOf(error)).text}\n`)
  return error.exitCode
}

/** The default name of a sandbox is `sandbox-…`, so “sandbox sandbox-7f3kq2” would repeat the noun. */
function withoutRepeatedNoun(message: string): string {
  return message.replace(/\b(?:the )?sandbox (?=sandbox-)/g, '')
}

function toInternalError(thrown: unknown): CraikError {
  const message = thrown instanceof Error ? thrown.message : String(thrown)
  return new CraikError('internal', `internal error: ${message}`, { cause: thrown })
}

function stackOf(error: Error): string {
  const cause = error.cause instanceof Error ? `\ncaused by ${stackOf(error.cause)}` : ''
  return `${error.stack ?? error.message}${cause}`
}
