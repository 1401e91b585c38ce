/** Reads a database in a separate process. Craik kills it when it takes too long or when its reader stops. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { hostEnvironment } from '../../lib/child.ts'
import { packageFile } from '../../lib/package-files.ts'
import { JsonLines, parseWith } from '../transcript-lines.ts'
import { type DatabaseLine, databaseLine, ROW_BYTES } from './database-lines.ts'

/** Includes the time in which the caller processes the output. */
const DEADLINE_MS = 2 * 60_000
const HELPER = import.meta.url.endsWith('.ts')
  ? 'src/transcripts/opencode/main.ts'
  : 'src/read-opencode-database.cjs'
/** JSON in a JSON string: each byte of a row can become six bytes. */
const LINE_BYTES = 6 * ROW_BYTES + 64 * 1024

/**
 * Yields the database's lines, and `undefined` for an invalid line. The last one is `refused` when the process ended
 * early.
 */
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
      const line = parseWith(databaseLine, value)
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
