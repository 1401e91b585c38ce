/**
 * Runs a program whose output is a secret value: with a short timeout, without showing its messages, and without
 * Craik's environment.
 */
import { CraikError } from '../errors.ts'
import { hostEnvironment, type RunResult, runChild } from '../lib/child.ts'
import type { FoundProgram } from '../lib/host-programs.ts'
import { MAX_VALUE_BYTES } from './secret.ts'

const TIMEOUT_MS = 10_000
/** The size of a value, and as much again for other output of a tool. */
const MAX_OUTPUT_BYTES = 2 * MAX_VALUE_BYTES
/** The variables with which password managers find the session's agent and keyring. */
const SESSION_VARIABLES = ['DBUS_SESSION_BUS_ADDRESS', 'XDG_RUNTIME_DIR']

/** The result of reading a source: the value, or why none exists. Neither contains what a tool wrote to stderr. */
export type SourceResult = { readonly value: Buffer } | { readonly reason: string; readonly hint?: string }

interface ToolOutput {
  readonly result: RunResult
  readonly stdout: Buffer
  /** Whether the tool wrote to stderr. That text can contain anything, so it is dropped. */
  readonly complained: boolean
  /** Why the run produced no value, or `undefined` when it succeeded. */
  readonly failure: string | undefined
}

/** `signal` asks a tool to stop, and `killSignal` kills it at once. */
export interface ToolStop {
  readonly signal: AbortSignal
  readonly killSignal?: AbortSignal | undefined
}

/**
 * Runs a program that `lib/host-programs.ts` found. It runs in the root folder, so that the result does not depend on
 * the caller's working folder.
 */
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
  return { result, stdout: Buffer.concat(chunks), complained, failure: failureOf(result, timeoutMs) }
}

function failureOf(result: RunResult, timeoutMs: number): string | undefined {
  switch (result.end) {
    case 'exited':
      return result.exitCode === 0 ? undefined : `it exited with code ${result.exitCode}`
    case 'signalled':
      return `it was killed by ${result.signal}`
    case 'timeout':
      return `it took longer than ${timeoutMs / 1000} s`
    case 'output_limit':
      return `it wrote more than ${MAX_OUTPUT_BYTES} bytes`
    case 'not_started':
      return result.reason === 'missing' ? 'its program is not installed' : 'its program could not start'
    case 'cancelled':
      return 'it was stopped'
  }
}
