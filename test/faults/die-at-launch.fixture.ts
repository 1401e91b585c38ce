/**
 * Preloaded into a process that starts bubblewrap. The process kills itself as soon as it has started a bubblewrap with
 * the option `CRAIK_TEST_DIE_AT`, or `CRAIK_TEST_DIE_AFTER_US` microseconds later.
 */
import type { ChildProcess } from 'node:child_process'
import { subscribe } from 'node:diagnostics_channel'

const { CRAIK_TEST_DIE_AT: option = '', CRAIK_TEST_DIE_AFTER_US: afterUs = '0' } = process.env

subscribe('child_process', (message) => {
  const { process: child } = message as { readonly process: ChildProcess }
  child.once('spawn', () => {
    if (!child.spawnargs.includes(option)) return
    const endsMs = performance.now() + Number(afterUs) / 1000
    // Waits without the event loop, so that this process does nothing else in the meantime.
    while (performance.now() < endsMs);
    process.kill(process.pid, 'SIGKILL')
  })
})
