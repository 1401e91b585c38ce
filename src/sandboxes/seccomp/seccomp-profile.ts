/** The system calls that sandboxes must not make, as data. Every backend uses the same list. */

/**
 * The address families that the network namespace isolates, and Unix sockets for sandboxes that see no socket of the
 * host.
 */
export const SOCKET_FAMILIES = { unix: 1, inet: 2, inet6: 10, netlink: 16 } as const

/** Families whose raw and packet sockets are refused. Netlink sockets are always raw. */
export const NO_RAW_FAMILIES = [SOCKET_FAMILIES.inet, SOCKET_FAMILIES.inet6] as const
export const RAW_SOCKET_TYPES = [3, 10] as const

/** Flags of `clone` that create namespaces. */
export const NEW_NAMESPACES =
  0x0002_0000 | 0x0200_0000 | 0x0400_0000 | 0x0800_0000 | 0x1000_0000 | 0x2000_0000 | 0x4000_0000

/** TIOCSTI types into the user's terminal, and TIOCLINUX pastes into the console. */
export const REFUSED_IOCTLS = [0x5412, 0x541c] as const

/** Refused with EPERM, whatever the arguments. */
export const REFUSED_CALLS = [
  // Namespaces do not isolate kernel keys and counters.
  'add_key',
  'request_key',
  'keyctl',
  'bpf',
  'perf_event_open',
  'userfaultfd',
  'syslog',
  // io_uring opens sockets and files that this filter does not see.
  'io_uring_setup',
  'io_uring_enter',
  'io_uring_register',
  // These access the memory and descriptors of other processes.
  'ptrace',
  'process_vm_readv',
  'process_vm_writev',
  'kcmp',
  'pidfd_getfd',
  'mount',
  'umount2',
  'pivot_root',
  'move_mount',
  'open_tree',
  'open_tree_attr',
  'fsopen',
  'fsconfig',
  'fsmount',
  'fspick',
  'mount_setattr',
  'unshare',
  'setns',
  // These open files by number instead of by name, which bypasses mounts over them.
  'open_by_handle_at',
  'name_to_handle_at',
  'swapon',
  'swapoff',
  'reboot',
  'kexec_load',
  'kexec_file_load',
  'acct',
  'quotactl',
  'quotactl_fd',
  'init_module',
  'finit_module',
  'delete_module',
] as const

type Call = (typeof REFUSED_CALLS)[number] | 'clone' | 'clone3' | 'socket' | 'socketpair' | 'ioctl'

export interface SeccompMachine {
  /** The kernel's number for the architecture. */
  readonly architecture: number
  readonly calls: Readonly<Record<Call, number>>
  /** Numbers from here on are alternative numbers of the same calls (x32). */
  readonly foreignFrom?: number
}

/** Calls since Linux 5.1 have the same number on every architecture. */
const NEWER = {
  io_uring_setup: 425,
  io_uring_enter: 426,
  io_uring_register: 427,
  open_tree: 428,
  move_mount: 429,
  fsopen: 430,
  fsconfig: 431,
  fsmount: 432,
  fspick: 433,
  clone3: 435,
  pidfd_getfd: 438,
  mount_setattr: 442,
  quotactl_fd: 443,
  open_tree_attr: 467,
}

export const MACHINES: Readonly<Partial<Record<string, SeccompMachine>>> = {
  x64: {
    architecture: 0xc000_003e,
    foreignFrom: 0x4000_0000,
    calls: {
      ...NEWER,
      ioctl: 16,
      socket: 41,
      socketpair: 53,
      clone: 56,
      ptrace: 101,
      syslog: 103,
      pivot_root: 155,
      acct: 163,
      mount: 165,
      umount2: 166,
      swapon: 167,
      swapoff: 168,
      reboot: 169,
      init_module: 175,
      delete_module: 176,
      quotactl: 179,
      kexec_load: 246,
      add_key: 248,
      request_key: 249,
      keyctl: 250,
      unshare: 272,
      perf_event_open: 298,
      name_to_handle_at: 303,
      open_by_handle_at: 304,
      setns: 308,
      process_vm_readv: 310,
      process_vm_writev: 311,
      kcmp: 312,
      finit_module: 313,
      kexec_file_load: 320,
      bpf: 321,
      userfaultfd: 323,
    },
  },
  arm64: {
    architecture: 0xc000_00b7,
    calls: {
      ...NEWER,
      ioctl: 29,
      umount2: 39,
      mount: 40,
      pivot_root: 41,
      quotactl: 60,
      acct: 89,
      unshare: 97,
      kexec_load: 104,
      init_module: 105,
      delete_module: 106,
      syslog: 116,
      ptrace: 117,
      reboot: 142,
      socket: 198,
      socketpair: 199,
      add_key: 217,
      request_key: 218,
      keyctl: 219,
      clone: 220,
      swapon: 224,
      swapoff: 225,
      perf_event_open: 241,
      name_to_handle_at: 264,
      open_by_handle_at: 265,
      setns: 268,
      process_vm_readv: 270,
      process_vm_writev: 271,
      kcmp: 272,
      finit_module: 273,
      bpf: 280,
      userfaultfd: 282,
      kexec_file_load: 294,
    },
  },
}
