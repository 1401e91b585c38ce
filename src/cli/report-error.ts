/** Says what went wrong: one line, then what to do. Never a secret, and no stack unless asked for. */
import { CraikError } from '../errors.ts'
import { redactText } from '../receipts/redaction/redact.ts'
import type { CliContext } from './context.ts'
import { printable } from './output.ts'

/** Returns the exit code. */
export async function reportError(context: CliContext, thrown: unknown): Promise<number> {
  const error = thrown instanceof CraikError ? thrown : unexpected(thrown)
  if (error.code === 'interrupted') {
    context.stderr.write('\n')
    return error.exitCode
  }
  const line = (text: string) => printable(redactText(text).text).replaceAll('\n', ' ')
  context.stderr.write(`craik: ${line(error.message)}\n`)
  if (error.hint !== '') context.stderr.write(`  ${line(error.hint)}\n`)
  if (context.environment.CRAIK_DEBUG) context.stderr.write(`${redactText(stackOf(error)).text}\n`)
  return error.exitCode
}

function unexpected(thrown: unknown): CraikError {
  const message = thrown instanceof Error ? thrown.message : String(thrown)
  return new CraikError('internal', `internal error: ${message}`, { cause: thrown })
}

function stackOf(error: Error): string {
  const cause = error.cause instanceof Error ? `\ncaused by ${stackOf(error.cause)}` : ''
  return `${error.stack ?? error.message}${cause}`
}
