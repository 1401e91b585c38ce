/** Runs a program whose output is a secret value: short, quiet, and without our environment. */
import { CraikError } from '../errors.ts'
import { hostEnvironment, type RunResult, runChild } from '../lib/child.ts'
import type { FoundProgram } from '../lib/host-programs.ts'
import { MAX_VALUE_BYTES } from './secret.ts'

const TIMEOUT_MS = 10_000
/** The value, and as much again for what a tool says on its way. */
const MAX_OUTPUT_BYTES = 2 * MAX_VALUE_BYTES
/** Where password managers find the session's agent and keyring. */
const SESSION_VARIABLES = ['DBUS_SESSION_BUS_ADDRESS', 'XDG_RUNTIME_DIR']

/** What a source gave: the value, or why there is none. Neither holds what a tool wrote to stderr. */
export type Reading = { readonly value: Buffer } | { readonly reason: string; readonly hint?: string }

interface ToolOutput {
  readonly result: RunResult
  readonly stdout: Buffer
  /** Whether it complained. What it said may hold anything, and is dropped. */
  readonly complained: boolean
}

/** The first asks a tool to end, the second ends it at once. */
export interface ToolStop {
  readonly signal: AbortSignal
  readonly killSignal?: AbortSignal | undefined
}

/** A program that was found by the rule of `lib/host-programs.ts`, in the root folder, so that the answer does not depend on where the caller stands. */
export async function runTool(
  program: FoundProgram,
  args: readonly string[],
  environment: NodeJS.ProcessEnv,
  { signal, killSignal }: ToolStop,
  timeoutMs = TIMEOUT_MS,
): Promise<ToolOutput> {
  const env = hostEnvironment(environment)
  for (const name of SESSION_VARIABLES) if (environment[name] !== undefined) env[name] = environment[name]
  const chunks: Buffer[] = []
  let complained = false
  const result = await runChild({
    argv: [...program.argv, ...args],
    argv0: program.argv0,
    cwd: '/',
    env,
    timeoutMs,
    signal,
    ...(killSignal && { killSignal }),
    maxOutputBytes: MAX_OUTPUT_BYTES,
    onStdout: (chunk) => void chunks.push(chunk),
    onStderr: () => {
      complained = true
    },
  })
  if (result.end === 'cancelled') throw new CraikError('interrupted', 'interrupted while reading a secret')
  return { result, stdout: Buffer.concat(chunks), complained }
}

/** Why a run gave no value, or undefined when it ended well. */
export function toolFailure(result: RunResult): string | undefined {
  switch (result.end) {
    case 'exited':
      return result.exitCode === 0 ? undefined : `it exited with code ${result.exitCode}`
    case 'signalled':
      return `it was killed by ${result.signal}`
    case 'timeout':
      return `it took longer than ${TIMEOUT_MS / 1000} s`
    case 'output_limit':
      return `it wrote more than ${MAX_OUTPUT_BYTES} bytes`
    case 'not_started':
      return result.reason === 'missing' ? 'its program is not installed' : 'its program could not start'
    case 'cancelled':
      return 'it was stopped'
  }
}
