/**
 * Preloaded into a process that starts bubblewrap: it kills itself in the moment in which one with the option
 * `CRAIK_TEST_DIE_AT` was started, or so many microseconds (`CRAIK_TEST_DIE_AFTER_US`) later.
 */
import type { ChildProcess } from 'node:child_process'
import { subscribe } from 'node:diagnostics_channel'

const { CRAIK_TEST_DIE_AT: option = '', CRAIK_TEST_DIE_AFTER_US: afterUs = '0' } = process.env

subscribe('child_process', (message) => {
  const { process: child } = message as { readonly process: ChildProcess }
  child.once('spawn', () => {
    if (!child.spawnargs.includes(option)) return
    const endsMs = performance.now() + Number(afterUs) / 1000
    // Not given back to the event loop: whatever else this process would do meanwhile, it does not.
    while (performance.now() < endsMs);
    process.kill(process.pid, 'SIGKILL')
  })
})
