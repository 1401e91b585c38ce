import { defineConfig } from 'vitest/config'

/** Two projects: `unit` sits beside the source and finishes in seconds, `system` starts real processes. */
export default defineConfig({
  test: {
    pool: 'forks',
    reporters: process.env.CI ? ['default', './test/no-silent-skips.ts'] : ['default'],
    projects: [
      { test: { name: 'unit', include: ['src/**/*.test.ts', 'scripts/**/*.test.ts'], testTimeout: 20_000 } },
      {
        test: { name: 'system', include: ['test/**/*.test.ts'], testTimeout: 180_000, hookTimeout: 180_000 },
      },
    ],
  },
})
