/** Programs that a supervisor of process sandboxes executes on the host. */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, vi } from 'vitest'
import { checkTrace, STRACE, straceArguments } from '../program-trace.ts'
import { EVERY_IDENTITY } from '../sandbox-home.ts'
import { traceLifecycle } from './supervisor-programs.ts'

describe.each(EVERY_IDENTITY)('the programs of a supervisor of %s', (identity) => {
  traceLifecycle(
    { identity, backend: 'process' },
    identity === 'root' ? ['bwrap', 'sh', 'setpriv', 'unshare', 'du'] : ['bwrap', 'du'],
  )
})

it('an unknown program is found, and programs that bubblewrap runs are not counted as one', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'craik-trace-'))
  const output = join(folder, 'programs')
  const inside = 'bwrap --unshare-all --ro-bind / / /usr/bin/env true'
  execFileSync(STRACE, [...straceArguments(output), '/bin/sh', '-c', `${inside}; /usr/bin/id; /bin/true`])
  const trace = () => checkTrace(existsSync(output) ? readFileSync(output, 'utf8') : '')
  await vi.waitUntil(() => trace().foreign.length === 2, { timeout: 10_000, interval: 20 })
  const { known, foreign, beyond } = trace()
  expect(foreign.map(({ path }) => path)).toEqual(['/usr/bin/id', '/bin/true'])
  expect(known).toEqual({ sh: 1, bwrap: 1 })
  expect(beyond).toBe(2)
  rmSync(folder, { recursive: true })
})
