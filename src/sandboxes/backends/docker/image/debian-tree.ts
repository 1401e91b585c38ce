/**
 * Builds a root file system from Debian's archive with mmdebstrap, without a registry. All its processes and mounts end
 * with this process, even when it is killed.
 */
import { mkdir, open } from 'node:fs/promises'
import { freemem } from 'node:os'
import { join } from 'node:path'
import { CraikError } from '../../../../errors.ts'
import { runChild } from '../../../../lib/child.ts'
import { findSystemProgram } from '../../../../lib/host-programs.ts'
import { SYSTEM_PATH } from '../../process/required-programs.ts'
import type { OnProgress } from './image-progress.ts'
import { missingPackage } from './packages.ts'

export interface TreeRequest {
  readonly suite: string
  readonly packages: readonly string[]
  /** The recipe's arguments. */
  readonly arguments: readonly string[]
  readonly epochSeconds: number
  /** The recipe's last step. It finds its other files in its own folder. */
  readonly finishScript: string
  /** An empty folder for intermediate files. The caller removes what is left in it. */
  readonly workFolder: string
  readonly environment: NodeJS.ProcessEnv
  readonly signal: AbortSignal
  readonly onProgress: OnProgress
}

const TREE = 'tree'
const DEADLINE_MS = 20 * 60_000
/** The build needs no time to clean up, because it runs in memory and in namespaces. */
const GRACE_MS = 1_000
const KEPT_CHARS = 4_000
const MAX_OUTPUT_BYTES = 8 * 1024 ** 3
/** Several times the memory that a tree of a few packages needs. */
const ROOM_BYTES = 3 * 1024 ** 3

/** The messages that mmdebstrap prints at the start of each step, and the share of its time that has passed by then. */
const STEPS: readonly (readonly [says: string, part: number, doing: string])[] = [
  ['running apt-get update', 0.01, 'downloading package lists'],
  ['downloading packages', 0.08, 'downloading packages'],
  ['extracting archives', 0.2, 'unpacking'],
  ['installing essential packages', 0.3, 'installing the system'],
  ['installing remaining packages', 0.45, 'installing packages'],
  ['running --customize-hook', 0.88, 'finishing'],
  ['creating tarball', 0.92, 'packing'],
]

/** Returns the path of mmdebstrap, if this machine can use it. */
export function findMmdebstrap(): string | undefined {
  return process.platform === 'linux' ? findSystemProgram('mmdebstrap', SYSTEM_PATH) : undefined
}

/** Creates the root file system and returns the path of its tar archive. */
export async function makeDebianTree(mmdebstrap: string, request: TreeRequest): Promise<string> {
  const archive = join(request.workFolder, 'root.tar')
  await mkdir(join(request.workFolder, TREE), { mode: 0o755 })
  let output = ''
  await using file = await open(archive, 'wx', 0o600)
  const result = await runChild({
    argv: commandLine(mmdebstrap, request),
    cwd: '/',
    env: environmentOf(request),
    inputs: [],
    timeoutMs: DEADLINE_MS,
    graceMs: GRACE_MS,
    signal: request.signal,
    maxOutputBytes: MAX_OUTPUT_BYTES,
    onStdout: (chunk) => file.writeFile(chunk),
    onStderr: (chunk) => {
      output = (output + chunk).slice(-KEPT_CHARS)
      const step = STEPS.findLast(([says]) => output.includes(says))
      if (step !== undefined) request.onProgress({ part: step[1], doing: step[2] })
    },
  })
  request.signal.throwIfAborted()
  if (result.end === 'exited' && result.exitCode === 0) return archive
  throw explain(output, result.end)
}

/**
 * A shell in its own namespaces runs these. The first hides apt's state on this machine, so that a faulty script cannot
 * change it. The second mounts a tmpfs, where mmdebstrap then creates the tree.
 */
const HIDE = 'for at in /var/lib/apt /var/cache/apt; do [ ! -d $at ] || mount -t tmpfs craik-image $at; done'
const ON_TMPFS = `mount -t tmpfs -o mode=0755,size=${ROOM_BYTES} craik-image "$0"`

/**
 * The namespaces end with their first process, which ends with this one. A kill therefore leaves no process, mount or
 * file, and it is faster. An ordinary user is root in a user namespace.
 */
function commandLine(mmdebstrap: string, request: TreeRequest): string[] {
  const program = (name: 'setpriv' | 'unshare' | 'sh') => {
    const found = findSystemProgram(name, SYSTEM_PATH)
    if (found !== undefined) return found
    throw new CraikError('unavailable', `${name} is not installed`, {
      hint: 'apt-get install util-linux',
    })
  }
  const isRoot = process.geteuid?.() === 0
  const users = isRoot ? [] : ['--user', '--map-auto', '--map-root-user']
  // With little memory, root uses the disk. An ordinary user could not remove the files there, which belong to the many
  // users of the namespace.
  const onDisk = isRoot && freemem() < ROOM_BYTES
  const script = ['set -e', HIDE, ...(onDisk ? [] : [ON_TMPFS]), 'exec "$@"'].join('; ')
  return [
    program('setpriv'),
    '--pdeathsig',
    'KILL',
    '--',
    program('unshare'),
    ...users,
    '--mount',
    '--propagation',
    'private',
    '--pid',
    '--fork',
    '--kill-child',
    '--mount-proc',
    '--',
    program('sh'),
    '-c',
    script,
    join(request.workFolder, TREE),
    // In a user namespace, mmdebstrap must know that it cannot create devices.
    mmdebstrap,
    `--mode=${isRoot ? 'root' : 'unshare'}`,
    '--format=tar',
    ...request.arguments,
    '--aptopt=Acquire::Retries "3"',
    `--include=${request.packages.join(',')}`,
    `--customize-hook=${request.finishScript}`,
    request.suite,
    '-',
  ]
}

/** Returns only the variables that are needed to reach the network. */
function environmentOf({ epochSeconds, workFolder, environment }: TreeRequest): Record<string, string> {
  const proxies = ['http_proxy', 'https_proxy', 'no_proxy'].flatMap((name) => {
    const value = environment[name] ?? environment[name.toUpperCase()]
    return value === undefined ? [] : [[name, value] as const]
  })
  return {
    ...Object.fromEntries(proxies),
    PATH: SYSTEM_PATH,
    LC_ALL: 'C.UTF-8',
    HOME: '/',
    TMPDIR: join(workFolder, TREE),
    SOURCE_DATE_EPOCH: String(epochSeconds),
  }
}

/** Returns an error with the useful part of mmdebstrap's long output. */
function explain(output: string, end: string): CraikError {
  const missing = missingPackage(output)
  if (missing !== undefined) return missing
  if (/newuidmap|subuid|user namespace|unshare/i.test(output) && process.geteuid?.() !== 0)
    return new CraikError('unavailable', 'mmdebstrap needs root, or user namespaces for this user', {
      hint: 'sudo apt-get install uidmap && sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 "$USER"',
      details: { said: output },
    })
  if (/No space left on device/.test(output))
    return new CraikError('disk_full', 'no space left to build the image', { details: { said: output } })
  const fetch = /Temporary failure resolving|Could not (?:resolve|connect)|Failed to fetch/.test(output)
  const complaint = output.split('\n').findLast((line) => /^(?:E:|W:|dpkg)/.test(line)) ?? end
  return new CraikError(
    'unavailable',
    fetch ? 'cannot reach Debian’s package archive' : `mmdebstrap failed: ${complaint.slice(0, 300)}`,
    {
      hint: fetch ? 'check the network, then run:  craik image build' : 'craik image build',
      details: { said: output },
    },
  )
}
