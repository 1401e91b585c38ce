/**
 * Encodes the profile as a kernel program, in the form that bubblewrap expects. It refuses what namespaces do not
 * isolate.
 */
import {
  MACHINES,
  NEW_NAMESPACES,
  NO_RAW_FAMILIES,
  RAW_SOCKET_TYPES,
  REFUSED_CALLS,
  REFUSED_IOCTLS,
  type SeccompMachine,
  SOCKET_FAMILIES,
} from './seccomp-profile.ts'

/** Classic BPF: `struct sock_filter { u16 code; u8 jt; u8 jf; u32 k; }`. */
type Instruction = readonly [code: number, jumpTrue: number, jumpFalse: number, k: number]

const LOAD_WORD = 0x20
const AND = 0x54
const JUMP_EQUAL = 0x15
const JUMP_AT_LEAST = 0x35
const JUMP_ANY_BIT = 0x45
const RETURN = 0x06

const ALLOW = 0x7fff_0000
const KILL_PROCESS = 0x8000_0000
const ERRNO = 0x0005_0000
const EPERM = 1
const ENOSYS = 38
const EAFNOSUPPORT = 97

/**
 * Offsets in `struct seccomp_data`. For arguments, the offset of the low half, because both architectures are
 * little-endian.
 */
const NUMBER = 0
const ARCHITECTURE = 4
const FIRST_ARGUMENT = 16
const SECOND_ARGUMENT = 24

/** The same number contains the flags `SOCK_NONBLOCK` and `SOCK_CLOEXEC` and the type. */
const SOCKET_TYPE = 0xf

export interface FilterOptions {
  /**
   * Whether Unix sockets can be opened. Must be false where a mounted host folder could contain one, because even a
   * read-only socket file connects to the program that listens there. Pairs are always allowed.
   */
  readonly unixSockets: boolean
}

/** Returns the program for an architecture. `undefined` if Craik does not support it. */
export function seccompFilter(
  options: FilterOptions,
  architecture: string = process.arch,
): Buffer | undefined {
  const machine = MACHINES[architecture]
  return machine && encode(instructionsFor(machine, options))
}

function instructionsFor(
  { architecture, calls, foreignFrom }: SeccompMachine,
  options: FilterOptions,
): Instruction[] {
  const { unix, inet, inet6, netlink } = SOCKET_FAMILIES
  const families = [...(options.unixSockets ? [unix] : []), inet, inet6, netlink]
  return [
    [LOAD_WORD, 0, 0, ARCHITECTURE],
    [JUMP_EQUAL, 1, 0, architecture],
    answer(KILL_PROCESS),
    [LOAD_WORD, 0, 0, NUMBER],
    ...(foreignFrom === undefined
      ? []
      : guardInstructions([JUMP_AT_LEAST, 0, 0, foreignFrom], [errno(ENOSYS)])),
    ...REFUSED_CALLS.flatMap((name) => guardInstructions(equals(calls[name]), [errno(EPERM)])),
    // Its flags are behind a pointer, which a filter cannot read. After ENOSYS, libc uses `clone`.
    ...guardInstructions(equals(calls.clone3), [errno(ENOSYS)]),
    ...guardInstructions(equals(calls.clone), [
      [LOAD_WORD, 0, 0, FIRST_ARGUMENT],
      ...guardInstructions([JUMP_ANY_BIT, 0, 0, NEW_NAMESPACES], [errno(EPERM)]),
      answer(ALLOW),
    ]),
    ...guardInstructions(equals(calls.ioctl), [
      [LOAD_WORD, 0, 0, SECOND_ARGUMENT],
      ...REFUSED_IOCTLS.flatMap((request) => guardInstructions(equals(request), [errno(EPERM)])),
      answer(ALLOW),
    ]),
    ...guardInstructions(equals(calls.socketpair), [
      [LOAD_WORD, 0, 0, FIRST_ARGUMENT],
      ...guardInstructions(equals(unix), [answer(ALLOW)]),
      errno(EAFNOSUPPORT),
    ]),
    ...guardInstructions(equals(calls.socket), [
      [LOAD_WORD, 0, 0, FIRST_ARGUMENT],
      ...families.flatMap((family) => guardInstructions(equals(family), afterFamily(family))),
      errno(EAFNOSUPPORT),
    ]),
    answer(ALLOW),
  ]
}

function afterFamily(family: number): Instruction[] {
  if (!NO_RAW_FAMILIES.some((one) => one === family)) return [answer(ALLOW)]
  return [
    [LOAD_WORD, 0, 0, SECOND_ARGUMENT],
    [AND, 0, 0, SOCKET_TYPE],
    ...RAW_SOCKET_TYPES.flatMap((type) => guardInstructions(equals(type), [errno(EPERM)])),
    answer(ALLOW),
  ]
}

/** Runs the instructions if the condition is true, and skips them otherwise. */
function guardInstructions([code, , , k]: Instruction, then: readonly Instruction[]): Instruction[] {
  return [[code, 0, then.length, k], ...then]
}

const equals = (value: number): Instruction => [JUMP_EQUAL, 0, 0, value]
const answer = (action: number): Instruction => [RETURN, 0, 0, action]
const errno = (number: number): Instruction => answer(ERRNO | number)

function encode(instructions: readonly Instruction[]): Buffer {
  const program = Buffer.alloc(instructions.length * 8)
  instructions.forEach(([code, jumpTrue, jumpFalse, k], i) => {
    program.writeUInt16LE(code, i * 8)
    program.writeUInt8(jumpTrue, i * 8 + 2)
    program.writeUInt8(jumpFalse, i * 8 + 3)
    program.writeUInt32LE(k >>> 0, i * 8 + 4)
  })
  return program
}
