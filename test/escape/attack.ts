/** An attack: a small program that reports whether it reached its goal, and if not, how it was stopped. */
import { MACHINES } from '../../src/sandboxes/seccomp/seccomp-profile.ts'
import type { Without } from './weakened-sandbox.ts'

export interface Attack {
  /** The action, as the rest of a sentence: `opens a vsock`. */
  readonly name: string
  /**
   * Python code. An error of the operating system means that the attack failed. Any other exception is a bug in the
   * test.
   */
  readonly program: string
  readonly args?: readonly string[]
  /** The defense to leave out so that the attack succeeds. */
  readonly without: Without
  /** All results that are allowed in a sandbox. */
  readonly refused: readonly string[]
  /** The results that are allowed in a container, if they differ. */
  readonly refusedInContainer?: readonly string[]
}

/** Everything that the end of a program reports. */
export interface Outcome {
  readonly code: number | null
  readonly signal?: string | null
  readonly stdout: string
  readonly stderr: string
}

const PRELUDE = `
import ctypes, errno, fcntl, os, signal, socket, struct, sys, time
args = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
def checked(result):
    if result < 0: raise OSError(ctypes.get_errno(), 'refused')
    return result
def call(number, *values):
    return checked(libc.syscall(ctypes.c_long(number), *[ctypes.c_long(v) if isinstance(v, int) else v for v in values]))
def words_of(name):
    try: return open('/proc/%s/cmdline' % name).read().split('\\0')
    # It ended meanwhile.
    except OSError: return []
def attack():
`
const ENDING = `
try:
    attack()
    print('succeeded', flush=True)
except MemoryError:
    print('failed ENOMEM', flush=True)
except OSError as error:
    print('failed', errno.errorcode.get(error.errno, error.errno), flush=True)
`

/** Uses the same interpreter on the host and in the sandbox, which has no other one. */
export function python(program: string, args: readonly string[] = []): string[] {
  const body = program.trim().split('\n')
  const indent = /^ */.exec(program.replace(/^\n*/, ''))![0].length
  const lines = body.map((line, i) => `    ${i === 0 ? line : line.slice(indent)}`)
  return ['/usr/bin/python3', '-I', '-c', PRELUDE + lines.join('\n') + ENDING, ...args]
}

/**
 * Returns `succeeded`, `failed ERRNO` or the signal that killed the program. A program that fails in any other way
 * proves nothing, so this throws.
 */
export function verdict({ code, signal, stdout, stderr }: Outcome): string {
  const last = stdout.trim().split('\n').at(-1) ?? ''
  if (code === 0 && /^(succeeded|failed \S+)$/.test(last)) return last
  if (signal) return `killed ${signal}`
  throw new Error(`the attack itself is broken (exit ${code}): ${stdout} ${stderr}`)
}

type Calls = NonNullable<(typeof MACHINES)[string]>['calls']

/** Returns the number of a system call on this architecture. */
export function numberOf(name: keyof Calls): number {
  return MACHINES[process.arch]!.calls[name]
}
