import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type DockerArgument, type DockerProfile, dockerProfile } from './docker-profile.ts'
import { evaluateFilter } from './evaluate-filter.fixture.ts'
import { seccompFilter } from './filter.ts'
import { MACHINES } from './seccomp-profile.ts'

const ALLOW = 0x7fff_0000
const ERRNO = 0x0005_0000
const LOW_HALF = 0xffff_ffffn

/** Evaluates the rules as the engine's library does: any matching rule decides, and arguments have 64 bits. */
function evaluateRules(profile: DockerProfile, call: string, args: readonly bigint[]): number {
  const fits = ({ index, op, value, valueTwo = 0 }: DockerArgument) => {
    const provided = BigInt.asUintN(64, args[index] ?? 0n)
    if (op === 'SCMP_CMP_EQ') return provided === BigInt(value)
    if (op === 'SCMP_CMP_NE') return provided !== BigInt(value)
    if (op === 'SCMP_CMP_GT') return provided > BigInt(value)
    return (provided & BigInt(value)) === BigInt(valueTwo)
  }
  const verdicts = profile.syscalls
    .filter(({ names, args: wanted = [] }) => names.includes(call) && wanted.every(fits))
    .map(({ errnoRet }) => ERRNO | errnoRet)
  expect(new Set(verdicts).size).toBeLessThanOrEqual(1)
  return verdicts[0] ?? ALLOW
}

const half = fc.oneof(
  fc.nat(50),
  fc.integer().map((value) => value >>> 0),
  fc.constantFrom(0x5412, 0x541c, 0x11, 0x3d0f00, 0x2000_0000, 3 | 0o4000, 3 | 0o2000000),
)

describe.each(['x64', 'arm64'])('the profile for engines on %s', (name) => {
  const { architecture, calls } = MACHINES[name]!
  const filter = seccompFilter({ unixSockets: true }, name)!
  const profile = dockerProfile(name)!
  const named = Object.entries(calls)
  const filterVerdict = (number: number, args: readonly bigint[]) =>
    evaluateFilter(filter, { architecture, number, args: args.map((arg) => Number(arg & LOW_HALF)) })

  it('gives the same verdict on every call as the filter for bubblewrap', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...named),
        fc.array(half, { minLength: 6, maxLength: 6 }),
        ([call, number], low) => {
          const args = low.map(BigInt)
          expect(evaluateRules(profile, call, args)).toBe(filterVerdict(number, args))
        },
      ),
      { numRuns: 2000 },
    )
  })

  it('allows nothing that the filter refuses, whatever the high half of an argument', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...named),
        fc.array(fc.tuple(half, half), { minLength: 6, maxLength: 6 }),
        ([call, number], halves) => {
          const args = halves.map(([high, low]) => (BigInt(high) << 32n) | BigInt(low))
          if (filterVerdict(number, args) !== ALLOW)
            expect(evaluateRules(profile, call, args)).not.toBe(ALLOW)
        },
      ),
      { numRuns: 2000 },
    )
  })

  it('never checks one argument twice in a rule, which engines treat as alternatives', () => {
    for (const { args = [] } of profile.syscalls)
      expect(new Set(args.map(({ index }) => index)).size).toBe(args.length)
  })

  it('names only calls that the filter contains, and one architecture', () => {
    const names = profile.syscalls.flatMap((rule) => rule.names)
    expect([...new Set(names)].sort()).toEqual(Object.keys(calls).sort())
    expect(profile.architectures).toHaveLength(1)
  })
})

it('does not exist for an unsupported architecture', () => {
  expect(dockerProfile('riscv64')).toBeUndefined()
})
