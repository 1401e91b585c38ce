/** Formats the profile for container engines. Its verdicts equal those of the filter for bubblewrap. */
import {
  MACHINES,
  NEW_NAMESPACES,
  NO_RAW_FAMILIES,
  RAW_SOCKET_TYPES,
  REFUSED_CALLS,
  REFUSED_IOCTLS,
  SOCKET_FAMILIES,
} from './seccomp-profile.ts'

interface DockerRule {
  readonly names: readonly string[]
  readonly action: 'SCMP_ACT_ERRNO'
  readonly errnoRet: number
  /** All conditions must hold. No two are about the same argument, because engines treat those as alternatives. */
  readonly args?: readonly DockerArgument[]
}

export interface DockerArgument {
  readonly index: number
  readonly op: 'SCMP_CMP_EQ' | 'SCMP_CMP_NE' | 'SCMP_CMP_GT' | 'SCMP_CMP_MASKED_EQ'
  /** For a masked comparison, the mask. */
  readonly value: number
  /** For a masked comparison, the expected value of the masked bits. */
  readonly valueTwo?: number
}

export interface DockerProfile {
  readonly defaultAction: 'SCMP_ACT_ALLOW'
  /** Only one. The kernel kills a process that makes calls of another architecture. */
  readonly architectures: readonly string[]
  readonly syscalls: readonly DockerRule[]
}

const ARCHITECTURES: Readonly<Record<string, string>> = {
  x64: 'SCMP_ARCH_X86_64',
  arm64: 'SCMP_ARCH_AARCH64',
}

const EPERM = 1
const ENOSYS = 38
const EAFNOSUPPORT = 97

/** The same number contains the flags `SOCK_NONBLOCK` and `SOCK_CLOEXEC` and the type. */
const SOCKET_TYPE = 0xf
/** The kernel reads only the low half of an `ioctl` request. */
const LOW_HALF = 0xffff_ffff

/**
 * Returns the profile for an architecture, by Node's name. `undefined` if Craik does not support it. The profile allows
 * Unix sockets.
 */
export function dockerProfile(architecture: string = process.arch): DockerProfile | undefined {
  const name = ARCHITECTURES[architecture]
  if (name === undefined || MACHINES[architecture] === undefined) return undefined
  return {
    defaultAction: 'SCMP_ACT_ALLOW',
    architectures: [name],
    syscalls: [
      refuseCalls(REFUSED_CALLS, EPERM),
      // Its flags are behind a pointer, which a filter cannot read. After ENOSYS, libc uses `clone`.
      refuseCalls(['clone3'], ENOSYS),
      ...bitsOf(NEW_NAMESPACES).map((flag) => refuseCalls(['clone'], EPERM, [maskedArgument(0, flag, flag)])),
      ...REFUSED_IOCTLS.map((request) =>
        refuseCalls(['ioctl'], EPERM, [maskedArgument(1, LOW_HALF, request)]),
      ),
      refuseCalls(['socketpair'], EAFNOSUPPORT, [argument(0, 'SCMP_CMP_NE', SOCKET_FAMILIES.unix)]),
      ...familyRules(),
      ...rawRules(),
    ],
  }
}

/** Refuses each family below the highest allowed one by its number, and all families above it. */
function familyRules(): DockerRule[] {
  const allowed: readonly number[] = Object.values(SOCKET_FAMILIES)
  const highest = Math.max(...allowed)
  const between = Array.from({ length: highest }, (_, family) => family).filter(
    (family) => !allowed.includes(family),
  )
  return [
    ...between.map((family) => argument(0, 'SCMP_CMP_EQ', family)),
    argument(0, 'SCMP_CMP_GT', highest),
  ].map((one) => refuseCalls(['socket'], EAFNOSUPPORT, [one]))
}

function rawRules(): DockerRule[] {
  return NO_RAW_FAMILIES.flatMap((family) =>
    RAW_SOCKET_TYPES.map((type) =>
      refuseCalls(['socket'], EPERM, [
        argument(0, 'SCMP_CMP_EQ', family),
        maskedArgument(1, SOCKET_TYPE, type),
      ]),
    ),
  )
}

function bitsOf(flags: number): number[] {
  return Array.from({ length: 31 }, (_, bit) => 1 << bit).filter((flag) => (flags & flag) !== 0)
}

function refuseCalls(
  names: readonly string[],
  errnoRet: number,
  args?: readonly DockerArgument[],
): DockerRule {
  return { names, action: 'SCMP_ACT_ERRNO', errnoRet, ...(args && { args }) }
}

const argument = (index: number, op: DockerArgument['op'], value: number): DockerArgument => ({
  index,
  op,
  value,
})
const maskedArgument = (index: number, mask: number, left: number): DockerArgument => ({
  index,
  op: 'SCMP_CMP_MASKED_EQ',
  value: mask,
  valueTwo: left,
})
