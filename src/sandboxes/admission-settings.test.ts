import { expect, it } from 'vitest'
import { admissionLimits, readHostSize, warmPoolSize } from './admission-settings.ts'

const MACHINE = { cores: 2, memoryBytes: 24 * 1024 ** 3, diskBytes: 100 * 1024 ** 3 }

it('promises several times what the host has, and no more sandboxes than fit', () => {
  expect(admissionLimits(undefined, MACHINE)).toEqual({
    total: 256,
    running: 100,
    cpuMillis: 100_000,
    memoryBytes: 240 * 1024 ** 3,
    diskBytes: 1000 * 1024 ** 3,
  })
  expect(
    Math.min(...Object.values(admissionLimits(undefined, readHostSize('/no/such/home')))),
  ).toBeGreaterThan(0)
})

it('reads the settings of the file and names the wrong ones', () => {
  const config = { sandboxes: 8, running: 2, cpus: 1.5, memory_gib: 0.5, disk_gib: 10 }
  expect(admissionLimits(config, MACHINE)).toEqual({
    total: 8,
    running: 2,
    cpuMillis: 1500,
    memoryBytes: 512 * 1024 ** 2,
    diskBytes: 10 * 1024 ** 3,
  })
  expect([warmPoolSize(undefined), warmPoolSize(config), warmPoolSize({ warm: 0 })]).toEqual([4, 4, 0])
  for (const wrong of [{ running: 0 }, { warm: -1 }, { warm: 33 }, { memory: '2g' }, [], 7, { cpus: -1 }])
    expect(() => admissionLimits(wrong, MACHINE)).toThrow(expect.objectContaining({ code: 'invalid_config' }))
})

it('lists the valid settings when it refuses an unknown one', () => {
  expect(() => admissionLimits({ runing: 3 }, MACHINE)).toThrow(
    'config/limits.yaml: unknown setting runing; valid settings: sandboxes, running, cpus, memory_gib, disk_gib, warm',
  )
})
