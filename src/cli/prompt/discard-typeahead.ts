/** What was typed before a question stands on the screen is no answer to it. */
import type { CliContext } from '../context.ts'

/** Nothing typed for so long, and all that was typed before has been read. */
const QUIET_MS = 100
const CTRL_C = 3

/** Leaves the terminal to be read key by key: the question is asked at once, without a moment in between. */
export async function dropTyped(
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
