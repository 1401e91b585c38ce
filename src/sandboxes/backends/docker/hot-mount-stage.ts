/**
 * Creates a mount namespace to prepare mounts in. It is a copy of this one in a small process that exits with Craik,
 * even when Craik is killed. All its mounts go with it.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Readable } from 'node:stream'
import { CraikError } from '../../../errors.ts'
import { findPrograms, SYSTEM_PATH } from '../process/required-programs.ts'
import { mountProgram } from './mount-programs.ts'

const DEADLINE_MS = 20_000
const MAX_SAID = 2_000
const OPTIONS = { cwd: '/', env: { PATH: SYSTEM_PATH } }

/** Prints a line when the mounts exist, and waits until its standard input closes. */
const PREPARE = `
while [ $# -gt 0 ]; do mount -o "$3" -- "$1" "$2"; shift 3; done
echo mounted
exec cat >/dev/null`

/** mount must not resolve these names, because some of them are descriptors. */
const MOUNT = 'while [ $# -gt 0 ]; do mount --no-canonicalize --rbind -- "$1" "$2"; shift 2; done'

/** Mounts the source with all mounts below it and with its flags. */
export interface Mounting {
  readonly source: string
  readonly target: string
}

export interface Stage extends AsyncDisposable {
  /** A process in the mount namespace. */
  readonly pid: number
  /** Mounts these in order. Mounts in a shared folder remain in the container when the stage is gone. */
  mount(all: readonly Mounting[], descriptors: readonly number[]): Promise<void>
}

/** Opens a stage. Only root must be able to write at the targets, because mount finds them by name. */
export async function openStage(all: readonly (Mounting & { readonly options: string })[]): Promise<Stage> {
  const { unshare, sh } = findPrograms(process.env)
  const parts = all.flatMap(({ source, target, options }) => [source, target, options])
  // Shared mounts stay shared, because they propagate to the container.
  const args = ['--mount', '--propagation', 'unchanged', '--', sh, '-euc', PREPARE, 'sh', ...parts]
  const child = spawn(unshare, args, { ...OPTIONS, stdio: ['pipe', 'pipe', 'pipe'] })
  child.on('error', () => {})
  child.stdin.on('error', () => {})
  const reply = listen(child.stderr)
  const ended = once(child, 'close')
  ended.catch(() => {})
  const close = async () => {
    child.stdin.end()
    const timer = setTimeout(() => child.kill('SIGKILL'), DEADLINE_MS)
    await ended.catch(() => {})
    clearTimeout(timer)
  }
  try {
    const until = AbortSignal.timeout(DEADLINE_MS)
    await Promise.race([
      once(child.stdout, 'data', { signal: until }),
      ended.then(() => {
        throw stageError(reply())
      }),
    ])
  } catch (error) {
    child.kill('SIGKILL')
    await close()
    throw error instanceof CraikError ? error : stageError(reply(), error)
  }
  const pid = child.pid!
  return {
    pid,
    mount: (more, descriptors) => mountIn(pid, sh, more, descriptors),
    [Symbol.asyncDispose]: close,
  }
}

async function mountIn(
  pid: number,
  sh: string,
  all: readonly Mounting[],
  descriptors: readonly number[],
): Promise<void> {
  const names = all.flatMap(({ source, target }) => [source, target])
  const args = [`--mount=/proc/${pid}/ns/mnt`, '--', sh, '-euc', MOUNT, 'sh', ...names]
  const child = spawn(mountProgram('nsenter'), args, {
    ...OPTIONS,
    stdio: ['ignore', 'ignore', 'pipe', ...descriptors],
    timeout: DEADLINE_MS,
    killSignal: 'SIGKILL',
  })
  const reply = listen(child.stderr!)
  const [code] = await once(child, 'close').catch((error) => {
    throw stageError(reply(), error)
  })
  if (code !== 0) throw stageError(reply())
}

function listen(stream: Readable): () => string {
  let output = ''
  stream.setEncoding('utf8').on('data', (text: string) => {
    output = (output + text).slice(-MAX_SAID)
  })
  return () => output.trim().split('\n').at(-1)?.slice(0, 300) || 'no reason reported'
}

function stageError(why: string, cause?: unknown): CraikError {
  return new CraikError('unavailable', `cannot mount folders for a container: ${why}`, {
    hint: 'craik doctor',
    cause,
  })
}
