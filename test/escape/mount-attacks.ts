/** Read-only mounts stay read-only, and no program opens a setting of the host for writing. */
import { type Attack, numberOf } from './attack.ts'

const WITH_RIGHTS = ['seccomp', 'capabilities', 'no user namespaces'] as const

/** MS_REMOUNT | MS_BIND, without MS_RDONLY. */
const WRITABLE_AGAIN = 0x1020

/**
 * `/opt/craik` holds the sidecar. Where the attack must succeed, a folder of the attacker is mounted there read-only.
 */
export const MOUNT_ATTACKS: readonly Attack[] = [
  {
    name: 'mounts a file system of its own',
    program: `
      name, kind = ctypes.c_char_p(b'none'), ctypes.c_char_p(b'tmpfs')
      call(${numberOf('mount')}, name, ctypes.c_char_p(b'/tmp'), kind, 0, 0)`,
    without: WITH_RIGHTS,
    refused: ['failed EPERM'],
  },
  {
    name: 'remounts the sidecar’s folder and writes to it',
    program: `
      call(${numberOf('mount')}, ctypes.c_char_p(b'none'), ctypes.c_char_p(b'/opt/craik'), 0, ${WRITABLE_AGAIN}, 0)
      open('/opt/craik/marker', 'w').close()`,
    without: WITH_RIGHTS,
    refused: ['failed EPERM'],
  },
  {
    name: 'unmounts what covers a folder',
    program: `call(${numberOf('umount2')}, ctypes.c_char_p(b'/opt/craik'), 2)`,
    without: WITH_RIGHTS,
    refused: ['failed EPERM'],
  },
  {
    name: 'makes a mount by the newer calls',
    program: `os.close(call(${numberOf('fsopen')}, ctypes.c_char_p(b'tmpfs'), 0))`,
    without: WITH_RIGHTS,
    refused: ['failed EPERM'],
  },
  {
    name: 'makes a device node',
    program: `
      path = '/tmp/craik-escape-node-%d' % os.getpid()
      os.mknod(path, 0o20666, os.makedev(1, 5))
      os.unlink(path)`,
    without: 'everything, as root',
    refused: ['failed EPERM'],
  },
  {
    name: 'opens for writing any setting of the kernel that is not its own namespaces’',
    // Opens the setting and closes it without writing, so that nothing changes on the host when the attack succeeds.
    program: `
      import re
      refused = None
      for folder, _, names in os.walk('/proc/sys'):
          for path in [os.path.join(folder, name) for name in names]:
              if re.match(r'/proc/sys/(fs/mqueue/|kernel/(ns_last_pid|pid_max|auto_msgmni|msg|sem|shm))', path): continue
              try: return os.close(os.open(path, os.O_WRONLY))
              except OSError as error: refused = error
      raise refused`,
    without: 'everything, as root',
    refused: ['failed EACCES', 'failed EROFS', 'failed EPERM'],
  },
  {
    name: 'has the kernel run a program on the host when something crashes',
    program: "os.close(os.open('/proc/sys/kernel/core_pattern', os.O_WRONLY))",
    without: 'everything, as root',
    refused: ['failed EACCES', 'failed EROFS'],
  },
  {
    name: 'opens a setting of a device or a control group for writing',
    program: `
      refused = None
      for path in ['kernel/uevent_helper', 'kernel/mm/ksm/run', 'fs/cgroup/cgroup.procs', 'fs/cgroup/memory/cgroup.procs']:
          try: return os.close(os.open('/sys/' + path, os.O_WRONLY))
          except OSError as error: refused = error
      raise refused`,
    without: 'everything, as root',
    refused: ['failed ENOENT'],
    // A container has a `/sys`, which is read-only.
    refusedInContainer: ['failed EACCES', 'failed EROFS'],
  },
]
