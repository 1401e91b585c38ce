/** Starts a sandbox that outlives this process, and waits until its first program runs. */
import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { CraikError } from '../../../errors.ts'
import { listInherited } from '../../../lib/inherited-descriptors.ts'
import { SYSTEM_PATH } from './required-programs.ts'

/**
 * An environment variable of every process on the host that runs for a sandbox. A sweep uses it to find processes
 * without a record. It comes first in the environment, because a sweep reads only the beginning.
 */
export const MARKER = 'CRAIK_SANDBOX'
/** Without isolation the jobs have this variable too. Craik's own variables do not reach them. */
export const INHERITED_MARKER = 'SANDBOX_ID'

const START_DEADLINE_MS = 20_000
const MAX_HEARD = 4096

export interface LaunchOptions {
  readonly id: string
  readonly argv: readonly string[]
  /** The contents for descriptors 5 and up. */
  readonly inputs: readonly Buffer[]
}

export interface Launched {
  readonly child: ChildProcess
  /** The pid of the sandbox's first process on the host. */
  readonly innerPid: number
  /** Returns the end of its standard error. A program in the sandbox may have written it. */
  readonly errorOutput: () => string
}

/**
 * Fails when the first program in the sandbox does not start. The caller must end what this function started by then.
 */
export async function launchProcess({ id, argv, inputs }: LaunchOptions): Promise<Launched> {
  const child = start(argv, { [MARKER]: id, PATH: SYSTEM_PATH }, inputs)
  const complaint = captureErrorOutput(child)
  const [info, started] = [child.stdio[3], child.stdio[4]] as Socket[]
  try {
    const exited = once(child, 'exit')
    const reply = collect(info!)
    const outcome = await Promise.race([
      once(started!, 'data').then(() => 'started' as const),
      exited.then(() => 'ended' as const),
      sleep(START_DEADLINE_MS, 'late' as const, { ref: false }),
    ])
    if (outcome !== 'started') throw await notStartedError(outcome, complaint)
    const innerPid = Number(/"child-pid": (\d+)/.exec(reply())?.[1])
    if (!Number.isSafeInteger(innerPid))
      throw new CraikError(
        'internal',
        'cannot start the sandbox: bubblewrap did not report its child process',
        {
          hint: 'try again; if this error returns, check this machine:  craik doctor',
        },
      )
    return { child, innerPid, errorOutput: complaint }
  } catch (error) {
    if (error instanceof CraikError) throw error
    throw new CraikError('unavailable', `cannot start the sandbox (${codeOf(error)})`, {
      cause: error,
    })
  } finally {
    info?.destroy()
    started?.destroy()
  }
}

/**
 * Returns a function for the end of the child's standard error. It never stops reading, so that no program in the
 * sandbox blocks on a full pipe.
 */
export function captureErrorOutput(child: ChildProcess): () => string {
  let heard = ''
  child.stderr?.setEncoding('utf8').on('data', (chunk: string) => {
    heard = (heard + chunk).slice(-MAX_HEARD)
  })
  child.stderr?.on('error', () => {})
  ;(child.stderr as Socket | null)?.unref()
  child.unref()
  return () => heard.replaceAll(/[^\P{C}\n]/gu, ' ').trim()
}

function start(
  argv: readonly string[],
  env: Record<string, string>,
  inputs: readonly Buffer[],
): ChildProcess {
  const stdio: StdioOptions = [
    'ignore',
    'ignore',
    'pipe',
    'pipe',
    'pipe',
    ...inputs.map(() => 'pipe' as const),
  ]
  const nothing = openSync('/dev/null', 'r')
  try {
    for (const descriptor of listInherited()) {
      if (descriptor < 5 + inputs.length) continue
      while (stdio.length <= descriptor) stdio.push('ignore')
      stdio[descriptor] = nothing
    }
    const child = spawn(argv[0]!, argv.slice(1), { cwd: '/', env, stdio, detached: true })
    child.on('error', () => {})
    for (const [i, input] of inputs.entries()) {
      const pipe = child.stdio[5 + i] as Socket
      pipe.on('error', () => {})
      pipe.end(input)
    }
    return child
  } finally {
    closeSync(nothing)
  }
}

function collect(stream: Socket): () => string {
  let output = ''
  stream.setEncoding('utf8').on('data', (chunk: string) => {
    output = (output + chunk).slice(0, MAX_HEARD)
  })
  stream.on('error', () => {})
  return () => output
}

async function notStartedError(outcome: 'ended' | 'late', complaint: () => string): Promise<CraikError> {
  if (outcome === 'late') {
    return new CraikError('timeout', `the sandbox did not start within ${START_DEADLINE_MS / 1000} seconds`, {
      hint: 'check this machine:  craik doctor   then try again',
    })
  }
  // Its output can arrive after its exit.
  await sleep(20)
  const line = complaint().split('\n').findLast(Boolean)?.slice(0, 300) ?? 'no reason reported'
  return new CraikError('unavailable', `cannot start the sandbox: ${line}`, { hint: 'craik doctor' })
}

function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? 'unknown error'
}
