/** Why an archive could not be packed or unpacked inside, in words of the program that tried. */
import { setTimeout as sleep } from 'node:timers/promises'
import { CraikError } from '../../errors.ts'
import { quoteName } from '../../lib/safe-tar/entry-names.ts'
import type { ApiClient } from '../../sdk/client.ts'
import type { JobResult } from '../../sidecar/protocol.ts'
import { explanationOf } from './job-exit-code.ts'

const KEPT_BYTES = 4096
/** `main` waits longer than this for a command that was interrupted. */
const GIVE_UP_MS = 3_000
const PAUSE_MS = 50

/**
 * An archive that nobody wants the rest of is ended inside too. One that is over, or was never begun, is left.
 * `isUnanswered`: it was asked for and may still be about to begin.
 */
export async function giveUpJob(
  client: ApiClient,
  sandbox: string,
  jobId: string,
  isUnanswered: boolean,
): Promise<void> {
  // Not with the command's own signal, which may be why it is given up.
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

/** What tar says of a file that no archive can hold, and which it leaves out. */
const IGNORED = /^(?:\S*tar: )?(.+): socket ignored$/
const LISTED = 100

/** What a program complained of: the beginning, and what it left out; the rest is dropped as it comes. */
export class ErrorLines {
  readonly #ignored: string[] = []
  #ignoredCount = 0
  #first: string | undefined
  /** The line that has begun. */
  #line = ''

  readonly push = (chunk: Buffer): void => {
    const lines = `${this.#line}${chunk.toString()}`.split('\n')
    this.#line = lines.pop()!.slice(0, KEPT_BYTES)
    for (const line of lines) this.#take(line)
  }

  /** The first line that tells of a fault. */
  get first(): string | undefined {
    return this.#first ?? (this.#line.trim() === '' ? undefined : this.#line)
  }

  /** Names with the reason, as in a copy's report. */
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

/** Undefined when it did what it was to do. */
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
