/** Discards what the user typed before a question appeared, because it cannot be an answer to the question. */
import type { CliContext } from '../context.ts'

/** If no key arrives for this long, all earlier input has been read. */
const QUIET_MS = 100
const CTRL_C = 3

/** Leaves the terminal in raw mode, so that the caller can ask the question without a gap. */
export async function discardTypeahead(
  stdin: CliContext['stdin'],
  onInterrupt: () => void,
  until: AbortSignal,
): Promise<void> {
  const quiet = Promise.withResolvers<void>()
  let timer = setTimeout(quiet.resolve, QUIET_MS)
  const drop = (typed: Buffer | string) => {
    if (Buffer.from(typed).includes(CTRL_C)) onInterrupt()
    clearTimeout(timer)
    timer = setTimeout(quiet.resolve, QUIET_MS)
  }
  until.addEventListener('abort', () => quiet.resolve(), { once: true })
  stdin.setRawMode(true)
  stdin.on('data', drop)
  try {
    await quiet.promise
  } finally {
    clearTimeout(timer)
    stdin.off('data', drop)
  }
}
