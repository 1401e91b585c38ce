import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { seccompFilter } from './seccomp.ts'

const ALLOW = 0x7fff_0000
const KILL = 0x8000_0000
const errno = (code: number) => 0x0005_0000 | code

/** What the kernel does with the program: runs it over one call and takes what it returns. */
function judge(program: Buffer, architecture: number, number: number, firstArgument = 0): number {
  const data = Buffer.alloc(64)
  data.writeUInt32LE(number >>> 0, 0)
  data.writeUInt32LE(architecture >>> 0, 4)
  data.writeUInt32LE(firstArgument >>> 0, 16)
  let accumulator = 0
  for (let at = 0; at < program.length / 8; at++) {
    const code = program.readUInt16LE(at * 8)
    const k = program.readUInt32LE(at * 8 + 4)
    const jump = (taken: boolean) => program.readUInt8(at * 8 + (taken ? 2 : 3))
    if (code === 0x06) return k
    else if (code === 0x20) accumulator = data.readUInt32LE(k)
    else if (code === 0x15) at += jump(accumulator === k)
    else if (code === 0x35) at += jump(accumulator >= k)
    else throw new Error(`no instruction ${code}`)
  }
  throw new Error('the program has no end')
}

const MACHINES = [
  {
    name: 'x64',
    architecture: 0xc000_003e,
    socket: 41,
    refused: [248, 249, 250, 298, 321, 323, 425, 426, 427],
  },
  {
    name: 'arm64',
    architecture: 0xc000_00b7,
    socket: 198,
    refused: [217, 218, 219, 241, 280, 282, 425, 426, 427],
  },
]

describe.each(MACHINES)('the filter for $name', ({ name, architecture, socket, refused }) => {
  const program = seccompFilter(name)!

  it('refuses keys, tracing and io_uring, and lets every other call pass', () => {
    for (const number of refused) expect(judge(program, architecture, number)).toBe(errno(1))
    for (let number = 0; number < 600; number++)
      if (number !== socket && !refused.includes(number))
        expect(judge(program, architecture, number)).toBe(ALLOW)
  })

  it('lets only sockets of the network namespace be opened', () => {
    fc.assert(
      fc.property(fc.oneof(fc.nat(50), fc.integer()), (family) => {
        const expected = [2, 10, 16].includes(family) ? ALLOW : errno(97)
        expect(judge(program, architecture, socket, family)).toBe(expected)
      }),
    )
  })

  it('ends a program that speaks to the kernel as another machine would', () => {
    for (const other of [0, 0x4000_0003, ...MACHINES.map((machine) => machine.architecture)])
      if (other !== architecture) expect(judge(program, other, 0)).toBe(KILL)
  })
})

it('of x64 knows no other spelling of its calls', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 0x3fff_ffff }), (number) => {
      expect(judge(seccompFilter('x64')!, 0xc000_003e, 0x4000_0000 + number)).toBe(errno(38))
    }),
  )
})

it('does not exist for a machine that we do not know', () => {
  expect(seccompFilter('riscv64')).toBeUndefined()
})
