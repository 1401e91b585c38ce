/**
 * Asks for confirmation before something is lost. Without a terminal it fails and names the command that needs no
 * confirmation.
 */
import { createInterface } from 'node:readline/promises'
import { CraikError } from '../errors.ts'
import type { CliContext } from './context.ts'

interface Question {
  readonly requested: string
  readonly would: string
  /** The command that needs no confirmation. */
  readonly command: string
}

export async function requireAgreed(
  context: CliContext,
  { yes }: { readonly yes?: boolean },
  { requested, would, command }: Question,
): Promise<void> {
  if (yes === true) return
  if (!context.stdin.isTTY)
    throw new CraikError('usage', `cannot ask for confirmation without a terminal: ${would}`, {
      hint: `confirm with --yes:  ${command}`,
    })
  if (await isAgreed(context, `  ${requested} [y/N] `)) return
  context.stderr.write('  nothing was changed')
  throw new CraikError('interrupted', 'not confirmed; nothing was changed (--yes confirms)')
}

/** Ctrl-D, Ctrl-C and every other end of the input mean no. */
export async function isAgreed(context: CliContext, requested: string): Promise<boolean> {
  const question = createInterface({ input: context.stdin, output: context.stderr })
  const closed = new Promise<undefined>((done) => question.once('close', () => done(undefined)))
  try {
    const typed = question.question(requested, { signal: context.signal }).catch((error) => {
      context.signal.throwIfAborted()
      throw error
    })
    const answer = await Promise.race([typed, closed])
    // The cursor is still on the line of the question.
    if (answer === undefined) context.stderr.write('\n')
    return answer !== undefined && /^y(es)?$/i.test(answer.trim())
  } finally {
    question.close()
  }
}
