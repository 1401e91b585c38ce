import { processCommands } from '../../src/sandboxes/backends/process/command-backend.ts'
import { commandBackendContract } from './command-backend.ts'

for (const isolation of ['process', 'none'] as const) {
  commandBackendContract('the process backend', isolation, (craikHome) =>
    processCommands({ craikHome, environment: { PATH: process.env.PATH } }),
  )
}
