/**
 * Runs Craik's programs in the workspace of a sandbox through the API. Each one gets a receipt, like any other command
 * there.
 */
import { Readable } from 'node:stream'
import { CraikError } from '../../errors.ts'
import { newId } from '../../lib/ids.ts'
import type { WorkspaceRunner } from '../../run/changes/workspace-runner.ts'
import type { ApiClient } from '../../sdk/client.ts'
import { runJob } from '../../sdk/run-job.ts'
import { ErrorLines, giveUpJob, jobFailure } from '../sandbox/job-failure.ts'

/** The path in every sandbox of the Node that runs its sidecar. */
const NODE_INSIDE = '/opt/craik/node'

/** `sandbox` is an id or a name. */
export function createWorkspaceRunner(client: ApiClient, sandbox: string): WorkspaceRunner {
  return {
    async runNode({ doing, script, input, timeoutMs, onOutput }, until) {
      const jobId = newId('job', Date.now())
      const complaints = new ErrorLines()
      const argv = [NODE_INSIDE, '-e', script]
      const spec = { kind: 'exec', argv, timeout_ms: timeoutMs, stdin: true } as const
      let isBegun = false
      const { result, lostBytes } = await runJob(client, sandbox, spec, {
        jobId,
        signal: until,
        stdin: Readable.from([Buffer.from(input)], { objectMode: false }),
        onStarted: () => {
          isBegun = true
        },
        onStdout: onOutput,
        onStderr: complaints.push,
      }).catch(async (error) => {
        await giveUpJob(client, sandbox, jobId, !isBegun && until.aborted)
        throw error
      })
      const failure = jobFailure(doing, sandbox, result, complaints)
      if (failure !== undefined) throw failure
      if (lostBytes > 0)
        throw new CraikError(
          'boundary_failed',
          `${doing} failed: ${lostBytes} bytes of the answer were lost`,
          {
            hint: 'try again',
          },
        )
    },
  }
}
