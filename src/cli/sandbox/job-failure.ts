/** Explains why an archive could not be packed or unpacked in a sandbox, in the words of the program that tried. */
import { setTimeout as sleep } from 'node:timers/promises'
import { CraikError } from '../../errors.ts'
import { quoteName } from '../../lib/safe-tar/entry-names.ts'
import type { ApiClient } from '../../sdk/client.ts'
import type { JobResult } from '../../sidecar/protocol.ts'
import { explanationOf } from './job-exit-code.ts'

const KEPT_BYTES = 4096
/** `main` waits longer than this for an interrupted command. */
const GIVE_UP_MS = 3_000
const PAUSE_MS = 50

/**
 * Cancels the job of an archive that is no longer needed. Ignores a job that has ended or never started. `isUnanswered`
 * means that the job was requested and may still start.
 */
export async function giveUpJob(
  client: ApiClient,
  sandbox: string,
  jobId: string,
  isUnanswered: boolean,
): Promise<void> {
  // Does not use the command's own signal, because its abort may be the reason for giving up.
  const signal = AbortSignal.timeout(GIVE_UP_MS)
  for (;;) {
    try {
      return await client.jobs.cancel(sandbox, jobId, { signal })
    } catch (error) {
      const isUnknown = error instanceof CraikError && error.code === 'not_found'
      if (!isUnanswered || !isUnknown || signal.aborted) return
    }
    await sleep(PAUSE_MS)
  }
}

/** tar prints this about a file that no archive can contain, and skips the file. */
const IGNORED = /^(?:\S*tar: )?(.+): socket ignored$/
const LISTED = 100

/** Collects what a program reports on stderr: the first error, and the files that it skipped. Drops the rest. */
export class ErrorLines {
  readonly #ignored: string[] = []
  #ignoredCount = 0
  #first: string | undefined
  /** The line that is not complete yet. */
  #line = ''

  readonly push = (chunk: Buffer): void => {
    const lines = `${this.#line}${chunk.toString()}`.split('\n')
    this.#line = lines.pop()!.slice(0, KEPT_BYTES)
    for (const line of lines) this.#take(line)
  }

  /** The first line that reports an error. */
  get first(): string | undefined {
    return this.#first ?? (this.#line.trim() === '' ? undefined : this.#line)
  }

  /** The names with the reason, as in the report of a copy. */
  get ignored(): readonly string[] {
    return this.#ignored
  }

  get ignoredCount(): number {
    return this.#ignoredCount
  }

  #take(line: string): void {
    const [, name] = IGNORED.exec(line) ?? []
    if (name === undefined) {
      if (line.trim() !== '') this.#first ??= line.slice(0, KEPT_BYTES)
      return
    }
    this.#ignoredCount++
    if (this.#ignored.length < LISTED) this.#ignored.push(`${quoteName(name)} (socket)`)
  }
}

/** Returns undefined if the job succeeded. */
export function jobFailure(
  doing: string,
  sandbox: string,
  result: JobResult,
  complaints: ErrorLines,
): CraikError | undefined {
  if (result.outcome === 'exited' && result.exitCode === 0) return undefined
  const output = complaints.first ?? explanationOf(result, sandbox) ?? `exit code ${result.exitCode}`
  const full = /no space left|quota exceeded/i.test(output)
  return new CraikError(
    full ? 'limit_reached' : 'boundary_failed',
    `${doing} failed: ${output.slice(0, 300)}`,
    {
      hint: full
        ? `check the disk usage:  craik sandbox stats ${sandbox}`
        : `list the files:  craik sandbox exec ${sandbox} -- ls -la`,
    },
  )
}
