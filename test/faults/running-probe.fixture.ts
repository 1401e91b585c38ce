/** Starts a bubblewrap probe as a supervisor does, and lives as long as the probe. */
import { buildCommandInvocation } from '../../src/sandboxes/backends/process/bubblewrap.ts'
import { runInside } from '../../src/sandboxes/backends/process/run-inside.ts'

const argv = ['sh', '-c', 'echo here; exec sleep 1000']
const made = buildCommandInvocation('/usr/bin/bwrap', { folder: '/usr', covered: [] }, {}, argv, {
  disableUserns: false,
})
const onStdout = (chunk: Buffer): void => {
  process.stdout.write(chunk)
}
await runInside(made, undefined, { argv, env: {}, timeoutMs: 1e6, onStdout, onStderr: onStdout })
