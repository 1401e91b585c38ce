import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type LimitSupport, planLimits, reportUnlimited, resourceArguments } from './resource-limits.ts'

const GIB = 1024 ** 3
const NOTHING: LimitSupport = { cgroups: { memory: false, processes: false, cpu: false }, diskImage: false }
const ALL: LimitSupport = { cgroups: { memory: true, processes: true, cpu: true }, diskImage: true }
const ASKED = { memoryBytes: GIB, processes: 100, cpuMillis: 500, diskBytes: GIB }

const limits = fc.record(
  {
    memoryBytes: fc.nat(),
    processes: fc.nat(),
    cpuMillis: fc.nat(),
    diskBytes: fc.nat(),
  },
  { requiredKeys: ['memoryBytes', 'processes'] },
)
const means = fc.record({
  cgroups: fc.record({ memory: fc.boolean(), processes: fc.boolean(), cpu: fc.boolean() }),
  diskImage: fc.boolean(),
})

describe('limits', () => {
  it('are enforced by the kernel for the whole sandbox where that is possible', () => {
    expect(planLimits(ASKED, false, ALL)).toEqual({
      report: { memory: 'cgroup', processes: 'cgroup', cpu: 'cgroup', disk: 'filesystem' },
      resources: {},
      imageBytes: GIB,
    })
  })

  it('are enforced per process where nothing else is possible, and reported so', () => {
    const { report, resources, imageBytes } = planLimits(ASKED, false, NOTHING)
    expect(report).toEqual({
      memory: 'per-process',
      processes: 'sandbox',
      cpu: 'not-enforced',
      disk: 'not-enforced',
    })
    expect(imageBytes).toBeUndefined()
    expect(resourceArguments(resources)).toEqual([
      '--core=0',
      `--data=${GIB + 768 * 1024 ** 2}`,
      '--nproc=100',
    ])
  })

  it('of the disk are not enforced for a workspace that is not on it', () => {
    expect(planLimits(ASKED, true, ALL).report.disk).toBe('not-enforced')
  })

  it('that were not requested are neither enforced nor reported as enforced', () => {
    const requested = { memoryBytes: GIB, processes: 100 }
    expect(planLimits(requested, false, ALL).report).toMatchObject({ cpu: 'not-asked', disk: 'not-asked' })
    expect(reportUnlimited(requested)).toMatchObject({
      cpu: 'not-asked',
      disk: 'not-asked',
      memory: 'not-enforced',
    })
  })

  it('are never reported as enforced by a missing feature', () => {
    fc.assert(
      fc.property(limits, means, fc.boolean(), (requested, have, inPlace) => {
        const { report, resources, imageBytes } = planLimits(requested, inPlace, have)
        expect(report.memory === 'cgroup').toBe(have.cgroups.memory)
        expect(report.processes === 'cgroup').toBe(have.cgroups.processes)
        expect(report.cpu === 'cgroup').toBe(have.cgroups.cpu && requested.cpuMillis !== undefined)
        if (report.disk === 'filesystem') expect(imageBytes).toBe(requested.diskBytes)
        expect(resources.dataBytes !== undefined).toBe(report.memory === 'per-process')
        expect(resources.processes !== undefined).toBe(report.processes === 'sandbox')
      }),
    )
  })
})
