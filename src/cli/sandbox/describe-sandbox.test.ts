import { expect, it } from 'vitest'
import type { SandboxBody } from '../../operator/api/bodies.ts'
import { beginningLines, describeSandbox, listUnenforcedLimits } from './describe-sandbox.ts'

const SANDBOX: SandboxBody = {
  id: 'sbx_01JCQ3V8Z0W4N5T6R7Y8K9M2PD',
  name: 'parser',
  backend: 'process',
  state: 'running',
  isolation: 'process',
  host_uid: 2_100_000_000,
  workspace: { mode: 'copy' },
  mounts: [],
  volumes: [],
  container: null,
  harnesses: [],
  credentials: 'none',
  accounts: null,
  limits: { memory_bytes: 2 ** 31, processes: 512, cpu_millis: 1500 },
  enforced: { memory: 'per-process', processes: 'sandbox', cpu: 'not-enforced', disk: 'not-asked' },
  operator: 'local-user:ada',
  policy_envelope_id: 'env_x',
  created_at_ms: 0,
  ends: { idle_ms: 1_800_000, lifetime_ms: null, keep_ms: 604_800_000 },
  active_at_ms: 30_000,
  started_at_ms: 0,
  stopped_at_ms: null,
  stops_at_ms: 1_830_000,
  connected: true,
  running_jobs: 1,
  notice: null,
}

it('names each limit that is not enforced for the sandbox as a whole', () => {
  expect(listUnenforcedLimits(SANDBOX.limits, SANDBOX.enforced)).toEqual([
    'memory: per-process',
    'cpu: not-enforced',
  ])
  const held = { memory: 'cgroup', processes: 'cgroup', cpu: 'cgroup', disk: 'filesystem' }
  expect(listUnenforcedLimits(SANDBOX.limits, held)).toEqual([])
})

it('omits a limit that the user did not set', () => {
  const { cpu_millis: _, ...limits } = SANDBOX.limits
  expect(listUnenforcedLimits(limits, SANDBOX.enforced)).toEqual(['memory: per-process'])
})

it('shows how each limit is enforced', () => {
  const page = describeSandbox(SANDBOX, 60_000)
  expect(page).toContain('  parser · sbx_01JCQ3V8Z0W4N5T6R7Y8K9M2PD · running\n')
  expect(page).toMatch(/^ {2}memory {6}2 GB · per-process$/m)
  expect(page).toMatch(/^ {2}cpu {9}1.5 cores · not-enforced$/m)
  expect(page).toMatch(/^ {2}disk {8}no limit$/m)
})

it('shows when the sandbox is stopped and deleted automatically, and the time until then', () => {
  const page = describeSandbox(SANDBOX, 60_000)
  expect(page).toMatch(/^ {2}ends {8}stopped when idle for 30 min · deleted 7 d after it stopped$/m)
  expect(page).toMatch(/^ {2}stops in {4}30 min$/m)
  const never = { idle_ms: null, lifetime_ms: null, keep_ms: null }
  expect(describeSandbox({ ...SANDBOX, ends: never, stops_at_ms: null }, 0)).toMatch(/never automatically/)
})

it('shows the logins, or the notice if they could not be written', () => {
  const accounts = [
    { id: 'codex', who: 'ada@example.test' },
    { id: 'env/ANTHROPIC_API_KEY', who: null },
  ]
  const broker = { ...SANDBOX, credentials: 'broker', accounts } as const
  expect(beginningLines(broker)).toBe('  accounts codex ada@example.test · env/ANTHROPIC_API_KEY\n')
  expect(describeSandbox(broker, 0)).toMatch(/^ {2}logins {6}placeholders.*: codex ada@example.test · /m)
  expect(beginningLines({ ...broker, accounts: [] })).toBe('  accounts none:  craik accounts\n')
  expect(beginningLines({ ...broker, accounts: null, notice: 'no room' })).toBe('  notice   no room\n')
  expect(beginningLines(SANDBOX)).toBe('')
})

it('lets no control character of a sandbox’s notice reach the terminal', () => {
  expect(describeSandbox({ ...SANDBOX, notice: 'a\u001b[2Jb\nc' }, 0)).toMatch(/notice {6}a�\[2Jb␤c\n$/)
})
