/**
 * A root file system from Debian's archive, by mmdebstrap, without any registry. Everything that it starts and mounts
 * ends with this process, however that ends.
 */
import { mkdir, open } from 'node:fs/promises'
import { freemem } from 'node:os'
import { join } from 'node:path'
import { CraikError } from '../../../../errors.ts'
import { runChild } from '../../../../lib/child.ts'
import { findSystemProgram } from '../../../../lib/host-programs.ts'
import { SYSTEM_PATH } from '../../process/programs.ts'
import { missingPackage } from './packages.ts'
import type { OnProgress } from './progress.ts'

export interface TreeRequest {
  readonly suite: string
  readonly packages: readonly string[]
  /** Of the recipe. */
  readonly arguments: readonly string[]
  readonly epochSeconds: number
  /** The recipe's last step, which finds the rest of what it needs beside itself. */
  readonly finishScript: string
  /** An empty folder for what is in the making; whatever is left in it is the caller's to remove. */
  readonly workFolder: string
  readonly environment: NodeJS.ProcessEnv
  readonly signal: AbortSignal
  readonly onProgress: OnProgress
}

const TREE = 'tree'
const DEADLINE_MS = 20 * 60_000
/** Nothing of it has to be cleaned up: it is in memory, and in namespaces. */
const GRACE_MS = 1_000
const KEPT_CHARS = 4_000
const MAX_OUTPUT_BYTES = 8 * 1024 ** 3
/** What a tree of a few packages takes in memory, several times over. */
const ROOM_BYTES = 3 * 1024 ** 3

/** What mmdebstrap says when it begins something, and how much of its time is over by then. */
const STEPS: readonly (readonly [says: string, part: number, doing: string])[] = [
  ['running apt-get update', 0.01, 'downloading package lists'],
  ['downloading packages', 0.08, 'downloading packages'],
  ['extracting archives', 0.2, 'unpacking'],
  ['installing essential packages', 0.3, 'installing the system'],
  ['installing remaining packages', 0.45, 'installing packages'],
  ['running --customize-hook', 0.88, 'finishing'],
  ['creating tarball', 0.92, 'packing'],
]

/** Whether this machine could do it at all. */
export function findMmdebstrap(): string | undefined {
  return process.platform === 'linux' ? findSystemProgram('mmdebstrap', SYSTEM_PATH) : undefined
}

/** The path of a tar archive of it. */
export async function makeDebianTree(mmdebstrap: string, request: TreeRequest): Promise<string> {
  const archive = join(request.workFolder, 'root.tar')
  await mkdir(join(request.workFolder, TREE), { mode: 0o755 })
  let said = ''
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
      said = (said + chunk).slice(-KEPT_CHARS)
      const step = STEPS.findLast(([says]) => said.includes(says))
      if (step !== undefined) request.onProgress({ part: step[1], doing: step[2] })
    },
  })
  request.signal.throwIfAborted()
  if (result.end === 'exited' && result.exitCode === 0) return archive
  throw explain(said, result.end)
}

/**
 * Run by a shell in namespaces of its own. What apt keeps of this machine is hidden, so that no mistake of a script can
 * reach it; then, on a tmpfs, mmdebstrap makes the tree.
 */
const HIDE = 'for at in /var/lib/apt /var/cache/apt; do [ ! -d $at ] || mount -t tmpfs craik-image $at; done'
const ON_TMPFS = `mount -t tmpfs -o mode=0755,size=${ROOM_BYTES} craik-image "$0"`

/**
 * The namespaces end with their first process, which ends with us: a kill leaves no process, no mount and no file,
 * besides being faster. An ordinary user is root of a namespace of users.
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
  // Where memory is short, root uses the disk; files of the many users of a namespace nobody else could remove.
  const onDisk = isRoot && freemem() < ROOM_BYTES
  const script = ['set -e', HIDE, ...(onDisk ? [] : [ON_TMPFS]), 'exec "$@"'].join('; ')
  return [
    ...[program('setpriv'), '--pdeathsig', 'KILL', '--'],
    ...[program('unshare'), ...users, '--mount', '--propagation', 'private'],
    ...['--pid', '--fork', '--kill-child', '--mount-proc', '--'],
    ...[program('sh'), '-c', script, join(request.workFolder, TREE)],
    // In a namespace of users it has to know that it cannot make devices.
    ...[mmdebstrap, `--mode=${isRoot ? 'root' : 'unshare'}`, '--format=tar'],
    ...[...request.arguments, '--aptopt=Acquire::Retries "3"'],
    `--include=${request.packages.join(',')}`,
    ...[`--customize-hook=${request.finishScript}`, request.suite, '-'],
  ]
}

/** Of ours only what leads to the network. */
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

/** mmdebstrap says a lot; what of it helps is told. */
function explain(said: string, end: string): CraikError {
  const missing = missingPackage(said)
  if (missing !== undefined) return missing
  if (/newuidmap|subuid|user namespace|unshare/i.test(said) && process.geteuid?.() !== 0)
    return new CraikError('unavailable', 'mmdebstrap needs root, or user namespaces for this user', {
      hint: 'sudo apt-get install uidmap && sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 "$USER"',
      details: { said },
    })
  if (/No space left on device/.test(said))
    return new CraikError('disk_full', 'no space left to build the image', { details: { said } })
  const fetch = /Temporary failure resolving|Could not (?:resolve|connect)|Failed to fetch/.test(said)
  const complaint = said.split('\n').findLast((line) => /^(?:E:|W:|dpkg)/.test(line)) ?? end
  return new CraikError(
    'unavailable',
    fetch ? 'cannot reach Debian’s package archive' : `mmdebstrap failed: ${complaint.slice(0, 300)}`,
    {
      hint: fetch ? 'check the network, then run:  craik image build' : 'craik image build',
      details: { said },
    },
  )
}
