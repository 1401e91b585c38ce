/** Converts a job from the API's format to the format of the sandbox manager. */
import type { z } from 'zod'
import type { JobRequest } from '../sandboxes/manager-types.ts'
import type { ExecSpec, JobSpec, TerminalSpec } from '../sidecar/protocol.ts'
import type { jobBody } from './api/requests.ts'

type Body = z.output<typeof jobBody>
type Runnable = Extract<Body, { readonly kind: 'exec' | 'terminal' }>

export function toJobRequest(body: Body): JobRequest {
  if (body.kind === 'tar-in' || body.kind === 'tar-out') return { spec: body }
  return {
    spec: body.kind === 'exec' ? execSpec(body) : terminalSpec(body),
    ...(body.command_ref !== undefined && { commandRef: body.command_ref }),
    ...('ends_when_left_ms' in body &&
      body.ends_when_left_ms !== undefined && { endsWhenLeftMs: body.ends_when_left_ms }),
  }
}

function execSpec(body: Extract<Runnable, { readonly kind: 'exec' }>): JobSpec {
  const spec: ExecSpec = {
    kind: 'exec',
    ...runnable(body),
    ...(body.stdin !== undefined && { stdin: body.stdin }),
    ...(body.max_output_bytes !== undefined && { maxOutputBytes: body.max_output_bytes }),
  }
  return spec
}

function terminalSpec(body: Extract<Runnable, { readonly kind: 'terminal' }>): JobSpec {
  const spec: TerminalSpec = {
    kind: 'terminal',
    ...runnable(body),
    cols: body.cols,
    rows: body.rows,
    ...(body.term !== undefined && { term: body.term }),
  }
  return spec
}

/** Without argv, the request names a registered command. The decision about the request finds its argv. */
function runnable({ argv = [], cwd, env, timeout_ms }: Omit<Runnable, 'kind'>) {
  return {
    argv,
    ...(cwd !== undefined && { cwd }),
    ...(env !== undefined && { env }),
    ...(timeout_ms !== undefined && { timeoutMs: timeout_ms }),
  }
}
