/** Starts a sandbox so that it outlives us, and waits until the first program inside runs. */
import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { CraikError } from '../../../errors.ts'
import { listInherited } from '../../../lib/inherited-descriptors.ts'
import { SYSTEM_PATH } from './required-programs.ts'

/**
 * In the environment of what runs on the host for a sandbox: by it a sweep finds what nobody wrote down. It stands
 * first there, because a sweep reads no environment to its end.
 */
export const MARKER = 'CRAIK_SANDBOX'
/** Without isolation the jobs carry it too; names of Craik's own do not reach them. */
export const INHERITED_MARKER = 'SANDBOX_ID'

const START_DEADLINE_MS = 20_000
const MAX_HEARD = 4096

export interface LaunchOptions {
  readonly id: string
  readonly argv: readonly string[]
  /** For descriptors 5 and up. */
  readonly inputs: readonly Buffer[]
}

export interface Launched {
  readonly child: ChildProcess
  /** As the host numbers it: the first process of the sandbox. */
  readonly innerPid: number
  /** The last that was heard on its standard error; whatever is inside may have written it. */
  readonly complaint: () => string
}

/** Fails when the first program inside does not start; what was started by then is the caller's to end. */
export async function launchProcess({ id, argv, inputs }: LaunchOptions): Promise<Launched> {
  const child = start(argv, { [MARKER]: id, PATH: SYSTEM_PATH }, inputs)
  const complaint = listen(child)
  const [info, started] = [child.stdio[3], child.stdio[4]] as Socket[]
  try {
    const exited = once(child, 'exit')
    const reply = collect(info!)
    const outcome = await Promise.race([
      once(started!, 'data').then(() => 'started' as const),
      exited.then(() => 'ended' as const),
      sleep(START_DEADLINE_MS, 'late' as const, { ref: false }),
    ])
    if (outcome !== 'started') throw await notStarted(outcome, complaint)
    const innerPid = Number(/"child-pid": (\d+)/.exec(reply())?.[1])
    if (!Number.isSafeInteger(innerPid))
      throw new CraikError('internal', 'bubblewrap did not report its child process')
    return { child, innerPid, complaint }
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

/** Of the program's standard error, its last part; the reading never stops, so that nothing inside waits for us. */
export function listen(child: ChildProcess): () => string {
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

async function notStarted(outcome: 'ended' | 'late', complaint: () => string): Promise<CraikError> {
  if (outcome === 'late') {
    return new CraikError('timeout', `the sandbox did not start within ${START_DEADLINE_MS / 1000} seconds`)
  }
  // What it said may arrive after its end.
  await sleep(20)
  const line = complaint().split('\n').findLast(Boolean)?.slice(0, 300) ?? 'no reason reported'
  return new CraikError('unavailable', `cannot start the sandbox: ${line}`, { hint: 'craik doctor' })
}

function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? 'unknown error'
}
