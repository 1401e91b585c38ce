/**
 * A mount namespace to put things together in: a copy of this one in a small process that ends with us, however we end,
 * and everything that was mounted in it goes with it.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Readable } from 'node:stream'
import { CraikError } from '../../../errors.ts'
import { findPrograms, SYSTEM_PATH } from '../process/programs.ts'
import { mountProgram } from './mount-programs.ts'

const DEADLINE_MS = 20_000
const MAX_SAID = 2_000
const OPTIONS = { cwd: '/', env: { PATH: SYSTEM_PATH } }

/** Says when it is done, and stays until nobody holds the other end of its input. */
const PREPARE = `
while [ $# -gt 0 ]; do mount -o "$3" -- "$1" "$2"; shift 3; done
echo mounted
exec cat >/dev/null`

/** Names are taken as they are: some of them are descriptors. */
const MOUNT = 'while [ $# -gt 0 ]; do mount --no-canonicalize --rbind -- "$1" "$2"; shift 2; done'

/** With all that is mounted in it, and the flags that it has. */
export interface Mounting {
  readonly source: string
  readonly target: string
}

export interface Stage extends AsyncDisposable {
  /** Whose view of the machine it is. */
  readonly pid: number
  /** In this order. What is mounted where others follow stays there when the stage is gone. */
  mount(all: readonly Mounting[], descriptors: readonly number[]): Promise<void>
}

/** Targets must be where only root can write: they are found by name. */
export async function openStage(all: readonly (Mounting & { readonly options: string })[]): Promise<Stage> {
  const { unshare, sh } = findPrograms(process.env)
  const parts = all.flatMap(({ source, target, options }) => [source, target, options])
  // What is shared stays so: that is how the container is reached.
  const args = ['--mount', '--propagation', 'unchanged', '--', sh, '-euc', PREPARE, 'sh', ...parts]
  const child = spawn(unshare, args, { ...OPTIONS, stdio: ['pipe', 'pipe', 'pipe'] })
  child.on('error', () => {})
  child.stdin.on('error', () => {})
  const said = listen(child.stderr)
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
        throw failed(said())
      }),
    ])
  } catch (error) {
    child.kill('SIGKILL')
    await close()
    throw error instanceof CraikError ? error : failed(said(), error)
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
  const said = listen(child.stderr!)
  const [code] = await once(child, 'close').catch((error) => {
    throw failed(said(), error)
  })
  if (code !== 0) throw failed(said())
}

function listen(stream: Readable): () => string {
  let said = ''
  stream.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(-MAX_SAID)
  })
  return () => said.trim().split('\n').at(-1)?.slice(0, 300) || 'no reason reported'
}

function failed(why: string, cause?: unknown): CraikError {
  return new CraikError('unavailable', `cannot mount folders for a container: ${why}`, {
    hint: 'craik doctor',
    cause,
  })
}
