import { processBackend } from '../../src/sandboxes/backends/process/backend.ts'
import { backendContract } from './backend.ts'

for (const isolation of ['process', 'none'] as const) {
  backendContract('the process backend', isolation, (craikHome) =>
    processBackend({ craikHome, environment: { PATH: process.env.PATH } }),
  )
}
