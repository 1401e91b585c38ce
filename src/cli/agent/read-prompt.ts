/** Reads the task of the user: the argument itself, or stdin if the argument is `-`. */
import { CraikError } from '../../errors.ts'
import type { CliContext } from '../context.ts'

const FROM_STDIN = '-'

/** Removes one trailing line break from stdin. */
export async function readPrompt(
  { stdin, signal }: Pick<CliContext, 'stdin' | 'signal'>,
  argument: string,
): Promise<string> {
  if (argument !== FROM_STDIN) return argument
  if (stdin.isTTY) {
    throw new CraikError('usage', 'cannot read the prompt from stdin: it is a terminal', {
      hint: 'redirect a file:  … - < FILE   or put the prompt in quotes',
    })
  }
  const { MAX_PROMPT_BYTES } = await import('../../run/agents/execute.ts')
  const bytes = await read(stdin, signal, MAX_PROMPT_BYTES)
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes).replace(/\r?\n$/, '')
  } catch (cause) {
    throw new CraikError('usage', 'the prompt on stdin is not valid UTF-8', {
      hint: 'convert the text to UTF-8 first, for example with iconv',
      cause,
    })
  }
}

async function read(stdin: NodeJS.ReadStream, signal: AbortSignal, most: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let length = 0
  const stop = () => stdin.destroy(new CraikError('interrupted', 'interrupted; no prompt was sent'))
  signal.addEventListener('abort', stop, { once: true })
  try {
    signal.throwIfAborted()
    for await (const chunk of stdin as AsyncIterable<Buffer>) {
      chunks.push(chunk)
      length += chunk.length
      // The longest prompt may have a line break of two bytes after it.
      if (length > most + 2) {
        throw new CraikError(
          'too_large',
          `the prompt on stdin is larger than ${most.toLocaleString('en')} bytes`,
          { hint: 'shorten the prompt, or put the details in a file of the workspace' },
        )
      }
    }
    return Buffer.concat(chunks)
  } finally {
    signal.removeEventListener('abort', stop)
  }
}
