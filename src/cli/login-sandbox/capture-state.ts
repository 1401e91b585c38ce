/** Records what is installed and configured in a running sandbox. */
import { Readable } from 'node:stream'
import { CraikError } from '../../errors.ts'
import { newId } from '../../lib/ids.ts'
import { parseState, type SavedState, STATE_LIMITS } from '../../login-sandbox/keep/sandbox-state.ts'
import { stateScript } from '../../login-sandbox/keep/state-script.ts'
import type { ApiClient } from '../../sdk/client.ts'
import { runJob } from '../../sdk/run-job.ts'
import { INSIDE } from '../../sidecar/protocol.ts'
import type { CliContext } from '../context.ts'

const TIMEOUT_MS = 30_000
/** Includes additional time for the boundary. */
const PATIENCE_MS = 60_000

export async function takeState(
  { clock, signal }: Pick<CliContext, 'clock' | 'signal'>,
  client: ApiClient,
  sandbox: string,
): Promise<SavedState> {
  const chunks: Buffer[] = []
  let bytes = 0
  const { result } = await runJob(
    client,
    sandbox,
    {
      kind: 'exec',
      argv: ['/bin/sh', '-s'],
      cwd: INSIDE.home,
      stdin: true,
      timeout_ms: TIMEOUT_MS,
      max_output_bytes: STATE_LIMITS.outputBytes,
    },
    {
      jobId: newId('job', clock.nowMs()),
      signal: AbortSignal.any([signal, AbortSignal.timeout(PATIENCE_MS)]),
      stdin: Readable.from([Buffer.from(stateScript())]),
      onStdout: (chunk) => {
        // The sandbox enforces the limit too, but a hostile program there could disable it.
        bytes += chunk.length
        if (bytes <= STATE_LIMITS.outputBytes) chunks.push(chunk)
      },
    },
  )
  if (result.outcome !== 'exited' || result.exitCode !== 0)
    throw new CraikError(
      'boundary_failed',
      `cannot list the packages in the sandbox: the command that lists them ${result.outcome === 'exited' ? `failed with exit code ${result.exitCode}` : 'did not finish'}`,
      { hint: 'save again:  craik save' },
    )
  return parseState(Buffer.concat(chunks), clock.nowMs())
}
