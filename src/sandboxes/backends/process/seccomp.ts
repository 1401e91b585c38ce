/** A system call filter as bubblewrap takes it: what namespaces do not confine is refused here. */

/** Classic BPF: `struct sock_filter { u16 code; u8 jt; u8 jf; u32 k; }`. */
type Instruction = readonly [code: number, jumpTrue: number, jumpFalse: number, k: number]

const LOAD_WORD = 0x20
const JUMP_EQUAL = 0x15
const JUMP_AT_LEAST = 0x35
const RETURN = 0x06

const ALLOW = 0x7fff_0000
const KILL_PROCESS = 0x8000_0000
const ERRNO = 0x0005_0000
const EPERM = 1
const ENOSYS = 38
const EAFNOSUPPORT = 97

/** Offsets in `struct seccomp_data`; of an argument, its low half (both machines are little-endian). */
const NUMBER = 0
const ARCHITECTURE = 4
const FIRST_ARGUMENT = 16

/**
 * IPv4, IPv6 and netlink live in the network namespace. Vsock reaches past it, to the hypervisor; a Unix socket that
 * lies in the workspace reaches the program of the host that listens there, read-only or not. Pairs are another call.
 */
const SOCKET_FAMILIES = [2, 10, 16]

interface Machine {
  readonly architecture: number
  readonly socket: number
  /** Kernel keys and tracing cross namespaces; io_uring opens sockets that this filter does not see. */
  readonly refused: readonly number[]
  /** Numbers from here on are another way to spell the same calls (x32). */
  readonly foreignFrom?: number
}

const MACHINES: Readonly<Partial<Record<string, Machine>>> = {
  x64: {
    architecture: 0xc000_003e,
    socket: 41,
    // add_key, request_key, keyctl, perf_event_open, bpf, userfaultfd, io_uring_setup, _enter, _register
    refused: [248, 249, 250, 298, 321, 323, 425, 426, 427],
    foreignFrom: 0x4000_0000,
  },
  arm64: {
    architecture: 0xc000_00b7,
    socket: 198,
    refused: [217, 218, 219, 241, 280, 282, 425, 426, 427],
  },
}

/** The program for this kind of machine; undefined where we have none. */
export function seccompFilter(architecture: string = process.arch): Buffer | undefined {
  const machine = MACHINES[architecture]
  return machine && encode(instructionsFor(machine))
}

function instructionsFor({ architecture, socket, refused, foreignFrom }: Machine): Instruction[] {
  const refuse = (number: number): Instruction[] => [
    [JUMP_EQUAL, 0, 1, number],
    [RETURN, 0, 0, ERRNO | EPERM],
  ]
  const families: Instruction[] = SOCKET_FAMILIES.map((family, i) => [
    JUMP_EQUAL,
    SOCKET_FAMILIES.length - i,
    0,
    family,
  ])
  return [
    [LOAD_WORD, 0, 0, ARCHITECTURE],
    [JUMP_EQUAL, 1, 0, architecture],
    [RETURN, 0, 0, KILL_PROCESS],
    [LOAD_WORD, 0, 0, NUMBER],
    ...(foreignFrom === undefined
      ? []
      : ([
          [JUMP_AT_LEAST, 0, 1, foreignFrom],
          [RETURN, 0, 0, ERRNO | ENOSYS],
        ] as const)),
    ...refused.flatMap(refuse),
    // socket(family, …): past the families and the refusal when it is another call.
    [JUMP_EQUAL, 0, families.length + 2, socket],
    [LOAD_WORD, 0, 0, FIRST_ARGUMENT],
    ...families,
    [RETURN, 0, 0, ERRNO | EAFNOSUPPORT],
    [RETURN, 0, 0, ALLOW],
  ]
}

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
