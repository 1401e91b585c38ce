import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'

/** Tests of real processes wait more than they compute: two files at once also where there are two cores. */
const maxWorkers = Math.max(2, availableParallelism() - 1)
const globalSetup = ['./test/run-folder.ts']
const setupFiles = ['./test/fixed-seed.ts']
const system = { globalSetup, setupFiles, testTimeout: 180_000, hookTimeout: 180_000 }
/** Supervisors and engines are killed or hang there at moments that count, and are given up in time: nothing runs beside them. */
const ALONE = ['test/faults/{supervisor,docker}-*.test.ts']
/** What needs a container engine, which the set-up of the project starts. */
const DOCKER = ['test/docker/**/*.test.ts']

/**
 * `unit` sits beside the source and finishes in seconds, `system` starts real processes, `docker` real containers, and
 * `alone` real processes too, one file at a time when the others are done.
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
          globalSetup: [...globalSetup, './test/engine-setup.ts'],
          include: DOCKER,
        },
      },
      { test: { name: 'alone', ...system, maxWorkers: 1, include: ALONE, sequence: { groupOrder: 1 } } },
    ],
  },
})
