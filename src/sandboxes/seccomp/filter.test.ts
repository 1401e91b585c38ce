import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { evaluateFilter } from './evaluate-filter.fixture.ts'
import { seccompFilter } from './filter.ts'
import { MACHINES, REFUSED_CALLS } from './seccomp-profile.ts'

const ALLOW = 0x7fff_0000
const KILL = 0x8000_0000
const EPERM = 0x0005_0001
const ENOSYS = 0x0005_0026
const EAFNOSUPPORT = 0x0005_0061

const int = fc.oneof(fc.nat(50), fc.integer())

describe.each(['x64', 'arm64'])('the filter for %s', (name) => {
  const { architecture, calls } = MACHINES[name]!
  const program = seccompFilter({ unixSockets: true }, name)!
  const closed = seccompFilter({ unixSockets: false }, name)!
  const ask = (number: number, args: readonly number[] = [], filter = program) =>
    evaluateFilter(filter, { architecture, number, args })

  it('has a different number for every call', () => {
    expect(new Set(Object.values(calls)).size).toBe(Object.keys(calls).length)
  })

  it('refuses every listed call, whatever its arguments', () => {
    fc.assert(
      fc.property(fc.constantFrom(...REFUSED_CALLS), fc.array(int, { maxLength: 6 }), (call, args) => {
        expect(ask(calls[call], args)).toBe(EPERM)
      }),
    )
  })

  it('allows every call that is not listed, whatever its arguments', () => {
    const named = new Set<number>(Object.values(calls))
    const others = Array.from({ length: 600 }, (_, number) => number).filter((number) => !named.has(number))
    for (const number of others) expect(ask(number), String(number)).toBe(ALLOW)
    fc.assert(
      fc.property(fc.constantFrom(...others), fc.array(int, { maxLength: 6 }), (number, args) => {
        expect(ask(number, args)).toBe(ALLOW)
      }),
    )
  })

  it('allows sockets of four families only, and no raw ones that see packets', () => {
    fc.assert(
      fc.property(int, fc.oneof(fc.nat(15), fc.integer()), (family, type) => {
        const isRaw = [2, 10].includes(family) && [3, 10].includes(type & 0xf)
        const known = isRaw ? EPERM : ALLOW
        expect(ask(calls.socket, [family, type])).toBe([1, 2, 10, 16].includes(family) ? known : EAFNOSUPPORT)
        expect(ask(calls.socket, [family, type], closed)).toBe(
          [2, 10, 16].includes(family) ? known : EAFNOSUPPORT,
        )
      }),
    )
    for (const nonBlocking of [3 | 0o4000, 3 | 0o2000000])
      expect(ask(calls.socket, [2, nonBlocking])).toBe(EPERM)
  })

  it('allows pairs of Unix sockets only, even where Unix sockets cannot be opened', () => {
    fc.assert(
      fc.property(int, (family) => {
        for (const filter of [program, closed])
          expect(ask(calls.socketpair, [family], filter)).toBe(family === 1 ? ALLOW : EAFNOSUPPORT)
      }),
    )
  })

  it('allows processes and threads, but not in new namespaces', () => {
    const namespaces = [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000]
    fc.assert(
      fc.property(fc.integer(), (flags) => {
        const isNew = namespaces.some((flag) => (flags & flag) !== 0)
        expect(ask(calls.clone, [flags])).toBe(isNew ? EPERM : ALLOW)
      }),
    )
    // The flags of fork, of vfork, and of a thread that libc creates.
    for (const flags of [0x11, 0x4111, 0x3d0f00]) expect(ask(calls.clone, [flags])).toBe(ALLOW)
    expect(ask(calls.clone3, [0])).toBe(ENOSYS)
  })

  it('refuses the calls that type into a terminal', () => {
    fc.assert(
      fc.property(fc.oneof(fc.constantFrom(0x5412, 0x541c), fc.integer()), int, (request, descriptor) => {
        const isTyping = [0x5412, 0x541c].includes(request >>> 0)
        expect(ask(calls.ioctl, [descriptor, request])).toBe(isTyping ? EPERM : ALLOW)
      }),
    )
  })

  it('kills a program that makes calls of another architecture', () => {
    for (const other of [0, 0x4000_0003, 0xc000_003e, 0xc000_00b7])
      if (other !== architecture)
        expect(evaluateFilter(program, { architecture: other, number: 0 })).toBe(KILL)
  })
})

it('of x64 refuses the alternative numbers of its calls', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 0x3fff_ffff }), (number) => {
      const call = { architecture: 0xc000_003e, number: 0x4000_0000 + number }
      expect(evaluateFilter(seccompFilter({ unixSockets: true }, 'x64')!, call)).toBe(ENOSYS)
    }),
  )
})

it('does not exist for an unsupported architecture', () => {
  expect(seccompFilter({ unixSockets: true }, 'riscv64')).toBeUndefined()
})
