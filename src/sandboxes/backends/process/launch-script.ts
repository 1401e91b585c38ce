/**
 * Builds the shell script that runs on the host before bubblewrap: it joins control groups and, as root, gives up root.
 */
import type { HostUser } from '../../backend.ts'
import type { HostPrograms } from './required-programs.ts'

/** Its arguments are the files to write its own pid to, then `--`, then the rest. */
const JOIN = `
while [ "$1" != -- ]; do printf %s "$$" >"$1"; shift; done
shift`

/**
 * Runs in a separate mount namespace. The user that root becomes cannot enter the Craik home, so everything for
 * bubblewrap is first mounted below one folder. The workspace is mounted through an open descriptor, after a check that
 * it is the requested folder.
 */
const STAGE = `
staged=$1 stage=$2 runtime=$3 harnesses=$4 socket=$5 disk=$6 kind=$7 workspace=$8 identity=$9
shift 9
while [ "$1" != -- ]; do mount --bind "$1" "$staged/volumes/\${1##*/}"; shift; done
shift
mount --bind "$runtime" "$staged/runtime"
if [ -n "$harnesses" ]; then mount --bind "$harnesses" "$staged/harnesses"; fi
mount --bind "$socket" "$staged/socket"
case $kind in
  image) mount -o loop,nosuid,nodev,noinit_itable,discard "$disk" "$staged/data" ;;
  folder) mount --bind "$disk" "$staged/data" ;;
esac
if [ -n "$workspace" ]; then
  exec <"$workspace/."
  if [ "$(stat -L -c %d:%i /proc/self/fd/0)" != "$identity" ]; then
    echo 'the workspace was replaced while the sandbox started' >&2
    exit 1
  fi
  mount --no-canonicalize --bind /proc/self/fd/0 "$staged/workspace"
  exec </dev/null
fi
mount --rbind "$staged" "$stage"`

const BECOME = `
exec "$@"`

export interface Staging {
  readonly user: HostUser
  /** The folder with all the mounts, and the folder of the host over which it is mounted. */
  readonly staged: string
  readonly stage: string
  readonly runtime: string
  /** The folder that contains all harnesses. `undefined` means that none is mounted. */
  readonly harnesses: string | undefined
  readonly socket: string
  /** An image file or a folder. */
  readonly disk: string
  readonly isImage: boolean
  readonly workspace: { readonly folder: string; readonly identity: string } | undefined
  /** Folders, each with the name of its volume. */
  readonly volumes: readonly string[]
}

/** Every value is an argument. None becomes part of the script's text. */
export function buildLaunchCommand(
  programs: HostPrograms,
  joinFiles: readonly string[],
  staging: Staging | undefined,
  bubblewrap: readonly string[],
): readonly string[] {
  if (staging === undefined) {
    if (joinFiles.length === 0) return bubblewrap
    return [programs.sh, '-euc', JOIN + BECOME, 'sh', ...joinFiles, '--', ...bubblewrap]
  }
  const { user, staged, stage, runtime, harnesses = '', socket, disk, isImage, workspace, volumes } = staging
  return [
    programs.unshare,
    '--mount',
    '--propagation',
    'private',
    '--',
    programs.sh,
    '-euc',
    JOIN + STAGE + BECOME,
    'sh',
    ...joinFiles,
    '--',
    staged,
    stage,
    runtime,
    harnesses,
    socket,
    disk,
    isImage ? 'image' : 'folder',
    workspace?.folder ?? '',
    workspace?.identity ?? '',
    ...volumes,
    '--',
    programs.setpriv,
    '--reuid',
    String(user.uid),
    '--regid',
    String(user.gid),
    '--clear-groups',
    '--inh-caps=-all',
    '--bounding-set=-all',
    '--no-new-privs',
    '--',
    ...bubblewrap,
  ]
}
