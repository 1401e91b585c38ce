/** Converts the end of a command in a sandbox to an exit code of Craik and, if that does not say enough, to a line. */
import { constants } from 'node:os'
import { ERRORS } from '../../errors.ts'
import type { JobResult } from '../../sidecar/protocol.ts'
import { printable } from '../output.ts'

/**
 * Returns the command's own code: 128 plus the number of a signal, 124 after a timeout, 126 or 127 if the command did
 * not start.
 */
export function jobExitCode({ outcome, exitCode, signal, error }: Ended): number {
  switch (outcome) {
    case 'exited':
      return exitCode ?? ERRORS.internal.exit
    case 'signalled':
      return 128 + signalNumber(signal)
    case 'out_of_memory':
      return 128 + constants.signals.SIGKILL
    case 'timeout':
      return ERRORS.timeout.exit
    case 'output_limit':
      return ERRORS.limit_reached.exit
    case 'cancelled':
      return ERRORS.interrupted.exit
    case 'not_started':
      return error === 'ENOENT' ? ERRORS.command_missing.exit : 126
  }
}

/** Returns undefined if the exit code says enough. */
export function explanationOf(
  { outcome, signal, error }: Ended,
  sandbox: string,
  { cwd, program }: Asked = {},
): string | undefined {
  switch (outcome) {
    case 'exited':
      return undefined
    case 'signalled':
      return `the command was terminated by ${signal ?? 'a signal'}`
    case 'out_of_memory':
      return `the sandbox ran out of memory, and the kernel killed the command\n  check the memory usage:  craik sandbox stats ${sandbox}`
    case 'timeout':
      return 'the command was stopped: it ran longer than --timeout'
    case 'output_limit':
      return 'the command was stopped: its unread output exceeded 1 GB'
    case 'cancelled':
      return 'the command was cancelled'
    case 'not_started':
      return notStarted(error, cwd, program)
  }
}

type Ended = Pick<JobResult, 'outcome' | 'exitCode' | 'signal' | 'error'>

/** The folder and the program as the user typed them, if they are known. */
interface Asked {
  readonly cwd?: string | undefined
  readonly program?: string | undefined
}

function notStarted(error: string | undefined, cwd: string | undefined, program: string | undefined): string {
  const called = program === undefined ? 'such program' : `program ${printable(program)}`
  if (error === 'ENOTDIR' && cwd !== undefined) return `no folder ${printable(cwd)} in the sandbox`
  if (error === 'ENOENT') return `no ${called} in the sandbox, or its working directory does not exist`
  if (error === 'EACCES') return 'permission denied: the program cannot be executed in the sandbox'
  return `could not start the program in the sandbox (${error ?? 'unknown reason'})`
}

function signalNumber(signal: string | null): number {
  return constants.signals[signal as NodeJS.Signals] ?? 0
}
