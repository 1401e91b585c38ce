/** Has a database read by a process of its own, which is killed when it takes too long or nobody listens any more. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { hostEnvironment } from '../../lib/child.ts'
import { packageFile } from '../../lib/package-files.ts'
import { fits, JsonLines } from '../transcript-lines.ts'
import { type DatabaseLine, databaseLine, ROW_BYTES } from './database-lines.ts'

/** With what is done meanwhile with what it says. */
const DEADLINE_MS = 2 * 60_000
const HELPER = import.meta.url.endsWith('.ts')
  ? 'src/transcripts/opencode/main.ts'
  : 'src/read-opencode-database.cjs'
/** JSON in a string of JSON: each byte of a row can become six. */
const LINE_BYTES = 6 * ROW_BYTES + 64 * 1024

/** What the database says, until it ends; `undefined` for a line that is none. Ends with `refused` when it was cut short. */
export async function* readDatabase(
  path: string,
  signal: AbortSignal,
  deadlineMs = DEADLINE_MS,
): AsyncGenerator<DatabaseLine | undefined> {
  signal.throwIfAborted()
  const child = spawn(
    process.execPath,
    [
      '--disable-warning=ExperimentalWarning',
      '--max-old-space-size=512',
      fileURLToPath(packageFile(HELPER)),
      path,
    ],
    { cwd: '/', env: hostEnvironment(process.env), stdio: ['ignore', 'pipe', 'ignore'] },
  )
  const ended = once(child, 'close').catch(() => undefined)
  const deadline = AbortSignal.timeout(deadlineMs)
  const kill = () => child.kill('SIGKILL')
  const stop = AbortSignal.any([signal, deadline])
  stop.addEventListener('abort', kill)
  if (stop.aborted) kill()
  let isWhole = false
  try {
    for await (const { value } of new JsonLines(child.stdout, { maxLineBytes: LINE_BYTES })) {
      const line = fits(databaseLine, value)
      if (line !== undefined && ('ended' in line || 'refused' in line)) isWhole = true
      yield line
    }
    signal.throwIfAborted()
    if (!isWhole)
      yield { refused: deadline.aborted ? 'reading it timed out' : 'the process that reads it exited early' }
  } finally {
    stop.removeEventListener('abort', kill)
    kill()
    await ended
  }
}
