import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'

/** Tests of real processes wait about as long as they compute: three files at once also where there are two cores. */
const maxWorkers = Math.max(3, availableParallelism() - 1)
const globalSetup = ['./test/run-folder.ts']
const setups = [...globalSetup, './test/built-craik.ts']
const setupFiles = ['./test/fixed-seed.ts']
const system = { globalSetup: setups, setupFiles, testTimeout: 180_000, hookTimeout: 180_000 }
/** Supervisors and engines are killed or hang there at moments that count, and are given up in time: two files at most. */
const ALONE = ['test/faults/{supervisor,docker}-*.test.ts']
/** What needs a container engine, which the set-up of the project starts. */
const DOCKER = ['test/docker/**/*.test.ts']

/**
 * `unit` sits beside the source and finishes in seconds, `system` starts real processes, `docker` real containers, and
 * `alone` real processes too, when the others are done.
 */
export default defineConfig({
  test: {
    pool: 'forks',
    reporters: process.env.CI
      ? ['default', './test/slowest-files.ts', './test/no-silent-skips.ts']
      : ['default'],
    projects: [
      {
        test: {
          name: 'unit',
          ...{ globalSetup, setupFiles, maxWorkers },
          include: ['src/**/*.test.ts', 'scripts/**/*.test.ts'],
          testTimeout: 20_000,
        },
      },
      {
        test: {
          name: 'system',
          ...{ ...system, maxWorkers },
          include: ['test/**/*.test.ts'],
          exclude: [...ALONE, ...DOCKER],
        },
      },
      {
        test: {
          name: 'docker',
          ...{ ...system, maxWorkers },
          globalSetup: [...setups, './test/engine-setup.ts'],
          include: DOCKER,
        },
      },
      { test: { name: 'alone', ...system, maxWorkers: 2, include: ALONE, sequence: { groupOrder: 1 } } },
    ],
  },
})
