import { expect, it } from 'vitest'
import { JOB_OUTCOMES } from '../../sidecar/protocol.ts'
import { explanationOf, jobExitCode } from './job-exit-code.ts'

it.each([
  [{ outcome: 'exited', exitCode: 0, signal: null }, 0],
  [{ outcome: 'exited', exitCode: 7, signal: null }, 7],
  [{ outcome: 'signalled', exitCode: null, signal: 'SIGTERM' }, 143],
  [{ outcome: 'signalled', exitCode: null, signal: 'SIGNONSENSE' }, 128],
  [{ outcome: 'out_of_memory', exitCode: null, signal: 'SIGKILL' }, 137],
  [{ outcome: 'timeout', exitCode: null, signal: 'SIGTERM' }, 124],
  [{ outcome: 'not_started', exitCode: null, signal: null, error: 'ENOENT' }, 127],
  [{ outcome: 'not_started', exitCode: null, signal: null, error: 'EACCES' }, 126],
  [{ outcome: 'cancelled', exitCode: null, signal: null }, 130],
] as const)('%j exits with %i', (result, code) => {
  expect(jobExitCode(result)).toBe(code)
})

it('names the folder that does not exist', () => {
  const result = { outcome: 'not_started', exitCode: null, signal: null, error: 'ENOTDIR' } as const
  expect(explanationOf(result, 'parser', { cwd: '/nope' })).toBe('no folder /nope in the sandbox')
})

it('explains every outcome except an exit code', () => {
  for (const outcome of JOB_OUTCOMES) {
    const output = explanationOf({ outcome, exitCode: null, signal: null }, 'parser')
    expect(output === undefined).toBe(outcome === 'exited')
  }
})
