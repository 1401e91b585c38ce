/** Attacks on kernel features that every program can use and that namespaces do not confine. */
import { type Attack, numberOf } from './attack.ts'

const NO_FILTER = ['seccomp'] as const
const WITH_RIGHTS = ['seccomp', 'capabilities', 'no user namespaces'] as const
const EPERM = ['failed EPERM']

const socketOf = (name: string, family: number, type: number, protocol = 0): Attack => ({
  name,
  program: `libc.close(checked(libc.socket(${family}, ${type}, ${protocol})))`,
  without: WITH_RIGHTS,
  refused: ['failed EPERM', 'failed EAFNOSUPPORT', 'failed EACCES'],
})

export const SOCKET_ATTACKS: readonly Attack[] = [
  socketOf('opens a raw socket', 2, 3, 1),
  socketOf('opens a raw IPv6 socket', 10, 3, 58),
  socketOf('opens a packet socket', 17, 3, 0x0300),
  socketOf('opens an old packet socket', 2, 10, 0x0300),
  socketOf('opens a socket of the machine’s hypervisor (AF_VSOCK)', 40, 1),
  {
    name: 'has the kernel open a socket behind the filter’s back (io_uring)',
    program: `
      parameters = ctypes.create_string_buffer(120)
      os.close(call(${numberOf('io_uring_setup')}, 1, parameters))`,
    without: NO_FILTER,
    refused: EPERM,
  },
]

const newNamespace = (name: string, flag: number): Attack => ({
  name: `makes ${name} with unshare`,
  program: `call(${numberOf('unshare')}, ${flag})`,
  without: WITH_RIGHTS,
  refused: EPERM,
})

/** The signal that the child sends when it ends. */
const SIGCHLD = 17

export const NAMESPACE_ATTACKS: readonly Attack[] = [
  newNamespace('a user namespace', 0x1000_0000),
  newNamespace('a mount namespace', 0x2_0000),
  newNamespace('a network namespace', 0x4000_0000),
  newNamespace('a pid namespace', 0x2000_0000),
  {
    name: 'makes a user namespace with clone',
    program: `
      pid = call(${numberOf('clone')}, ${0x1000_0000 | SIGCHLD}, 0, 0, 0, 0)
      if pid == 0: os._exit(0)
      os.waitpid(pid, 0)`,
    without: WITH_RIGHTS,
    refused: EPERM,
  },
  {
    name: 'makes a user namespace with clone3, whose flags no filter sees',
    program: `
      wanted = (ctypes.c_uint64 * 11)(${0x1000_0000}, 0, 0, 0, ${SIGCHLD})
      pid = call(${numberOf('clone3')}, wanted, 88)
      if pid == 0: os._exit(0)
      os.waitpid(pid, 0)`,
    without: WITH_RIGHTS,
    refused: ['failed ENOSYS'],
  },
  {
    name: 'enters a namespace that it can name',
    program: `
      own = os.open('/proc/self/ns/uts', os.O_RDONLY)
      call(${numberOf('setns')}, own, 0)`,
    without: WITH_RIGHTS,
    refused: EPERM,
  },
]

export const KERNEL_ATTACKS: readonly Attack[] = [
  {
    name: 'adds a key to a keyring of the kernel',
    program: `call(${numberOf('add_key')}, ctypes.c_char_p(b'user'), ctypes.c_char_p(b'craik-escape'), ctypes.c_char_p(b'x'), 1, -1)`,
    without: NO_FILTER,
    refused: EPERM,
  },
  {
    name: 'asks a keyring of the kernel for its id (keyctl)',
    program: `call(${numberOf('keyctl')}, 0, -2, 1)`,
    without: NO_FILTER,
    refused: EPERM,
  },
  {
    name: 'makes a map for programs in the kernel (bpf)',
    program: `
      wanted = ctypes.create_string_buffer(struct.pack('IIIII', 2, 4, 4, 1, 0), 128)
      os.close(call(${numberOf('bpf')}, 0, wanted, 128))`,
    without: 'everything, as root',
    refused: EPERM,
  },
  {
    name: 'handles page faults itself (userfaultfd)',
    program: `os.close(call(${numberOf('userfaultfd')}, 1))`,
    without: NO_FILTER,
    refused: EPERM,
  },
  {
    name: 'opens a counter of the kernel (perf_event_open)',
    program: `
      wanted = bytearray(128)
      # A software clock of this process, in user mode only: bits 5 and 6 leave out the kernel and the hypervisor.
      struct.pack_into('IIQQQQQ', wanted, 0, 1, 128, 1, 0, 0, 0, 0b1100000)
      os.close(call(${numberOf('perf_event_open')}, (ctypes.c_char * 128).from_buffer(wanted), 0, -1, -1, 0))`,
    without: NO_FILTER,
    refused: EPERM,
  },
  {
    name: 'reads the kernel’s log',
    program: `call(${numberOf('syslog')}, 3, ctypes.create_string_buffer(4096), 4096)`,
    without: 'everything, as root',
    refused: EPERM,
  },
  {
    name: 'opens a file by number, past what is mounted over it',
    program: `
      handle = ctypes.create_string_buffer(struct.pack('Ii', 128, 0), 136)
      mount = ctypes.c_int()
      at = os.open('/usr', os.O_RDONLY)
      call(${numberOf('name_to_handle_at')}, at, ctypes.c_char_p(b''), handle, ctypes.byref(mount), 0x1000)
      os.close(call(${numberOf('open_by_handle_at')}, at, handle, 0))`,
    without: 'everything, as root',
    refused: EPERM,
  },
  {
    name: 'types into the terminal of whoever looks on (TIOCSTI)',
    program: `
      import pty, termios
      pid, master = pty.fork()
      if pid == 0:
          try: fcntl.ioctl(0, termios.TIOCSTI, b'x')
          except OSError as error: os._exit(error.errno)
          os._exit(0)
      number = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
      if number: raise OSError(number, 'refused')`,
    without: NO_FILTER,
    refused: EPERM,
  },
  {
    name: 'becomes root',
    program: 'os.setuid(0)',
    without: 'everything, as root',
    refused: ['failed EPERM', 'failed EINVAL'],
  },
  {
    name: 'changes its root folder',
    program: "os.chroot('/')",
    without: WITH_RIGHTS,
    refused: EPERM,
  },
]
