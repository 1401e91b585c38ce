/** Programs that a supervisor of process sandboxes executes on the host. */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { judgeTrace, STRACE, straceArguments } from '../program-trace.ts'
import { EVERY_IDENTITY } from '../sandbox-home.ts'
import { traceLifecycle } from './supervisor-programs.ts'

describe.each(EVERY_IDENTITY)('the programs of a supervisor of %s', (identity) => {
  traceLifecycle(
    { identity, backend: 'process' },
    identity === 'root' ? ['bwrap', 'sh', 'setpriv', 'unshare', 'du'] : ['bwrap', 'du'],
  )
})

it('another program is seen, and what runs behind bubblewrap is not taken for one', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'craik-trace-'))
  const output = join(folder, 'programs')
  const inside = 'bwrap --unshare-all --ro-bind / / /usr/bin/env true'
  execFileSync(STRACE, [...straceArguments(output), '/bin/sh', '-c', `${inside}; /usr/bin/id; /bin/true`])
  for (const endMs = performance.now() + 10_000; performance.now() < endMs; await sleep(20))
    if (existsSync(output) && /"\/bin\/true".* = 0\n/.test(readFileSync(output, 'utf8'))) break
  const { known, foreign, beyond } = judgeTrace(readFileSync(output, 'utf8'))
  expect(foreign.map(({ path }) => path)).toEqual(['/usr/bin/id', '/bin/true'])
  expect(known).toEqual({ sh: 1, bwrap: 1 })
  expect(beyond).toBe(2)
  rmSync(folder, { recursive: true })
})
