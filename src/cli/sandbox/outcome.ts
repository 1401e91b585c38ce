/** How a command inside ended, as an exit code of ours and, where that does not say it, a line. */
import { constants } from 'node:os'
import { ERRORS } from '../../errors.ts'
import type { JobResult } from '../../sidecar/protocol.ts'
import { printable } from '../output.ts'

/** The command's own code. 128 and the number of a signal; 124 when time ran out; 126 and 127 when it did not start. */
export function exitCodeOf({ outcome, exitCode, signal, error }: Ended): number {
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

/** Undefined when the exit code says it all. */
export function explanationOf(
  { outcome, signal, error }: Ended,
  sandbox: string,
  { cwd, program }: Asked = {},
): string | undefined {
  switch (outcome) {
    case 'exited':
      return undefined
    case 'signalled':
      return `it was ended by ${signal ?? 'a signal'}`
    case 'out_of_memory':
      return `the sandbox is out of memory, and the kernel ended it\n  see what is used:  craik sandbox stats ${sandbox}`
    case 'timeout':
      return 'it ran longer than --timeout, and was ended'
    case 'output_limit':
      return 'it wrote more than is kept while nobody reads it (1 GB), and was ended'
    case 'cancelled':
      return 'it was cancelled'
    case 'not_started':
      return notStarted(error, cwd, program)
  }
}

type Ended = Pick<JobResult, 'outcome' | 'exitCode' | 'signal' | 'error'>

/** As it was typed, as far as that is known. */
interface Asked {
  readonly cwd?: string | undefined
  readonly program?: string | undefined
}

function notStarted(error: string | undefined, cwd: string | undefined, program: string | undefined): string {
  const called = program === undefined ? 'such program' : `program ${printable(program)}`
  if (error === 'ENOTDIR' && cwd !== undefined) return `there is no folder ${printable(cwd)} in the sandbox`
  if (error === 'ENOENT') return `there is no ${called} in the sandbox, or no such folder to run it in`
  if (error === 'EACCES') return 'the program may not be executed in the sandbox'
  return `the program could not be started in the sandbox (${error ?? 'no reason given'})`
}

function signalNumber(signal: string | null): number {
  return constants.signals[signal as NodeJS.Signals] ?? 0
}
