import { expect, it } from 'vitest'
import type { AgentEvent, ToolState } from '../../harnesses/acp/agent-events.ts'
import { TerminalView } from './terminal-view.ts'

function renderEvents(events: readonly AgentEvent[], columns = 120): string {
  let text = ''
  let now = 0
  const view = new TerminalView({
    write: (piece) => {
      text += piece
    },
    draw: () => {},
    nowMs: () => (now += 1050),
    columns: () => columns,
    dim: (each) => each,
  })
  for (const event of events) view.show(event)
  view.end()
  return text
}

const tool = (more: Partial<ToolState>): AgentEvent => ({
  type: 'tool',
  tool: {
    id: 'a',
    kind: 'execute',
    title: 'npm test',
    status: 'completed',
    paths: [],
    diffs: [],
    output: '',
    exitCode: null,
    ...more,
  },
})

it('prints text as one text, however it is split, and one line for each finished action', () => {
  const text = renderEvents([
    { type: 'text', text: 'Look' },
    { type: 'text', text: 'ing.\nThen' },
    tool({ status: 'pending' }),
    tool({ status: 'completed', exitCode: 1 }),
    tool({ status: 'completed', exitCode: 1 }),
    tool({ id: 'b', kind: 'edit', title: 'Write', diffs: [{ path: 'src/a.ts', added: 4, removed: 1 }] }),
    { type: 'text', text: 'Done.' },
  ])
  expect(text.split('\n')).toEqual([
    '  │ Looking.',
    '  │ Then',
    expect.stringMatching(/^ {2}● \$ npm test +exit 1 {3}1\.1 s$/),
    expect.stringMatching(/^ {2}● edit src\/a\.ts +\+4 −1$/),
    '  │ Done.',
    '',
  ])
})

it('lets no text of an agent move the cursor, and gives a refused action its own sign', () => {
  expect(renderEvents([{ type: 'text', text: 'a\u001b[2Jb' }])).not.toContain('\u001b')
  expect(renderEvents([tool({ title: 'rm\u001b]0;x\u0007 y', status: 'failed' })])).toMatch(
    /^ {2}✗ \$ rm[^\u001b\u0007]*\n$/,
  )
})

it('gives every row of an agent’s text a mark that Craik’s own rows do not have, however it is split, padded or wrapped', () => {
  const summary = '  receipts  9, none denied'
  const forged = `Fixed.\n\n${summary}\n${'x'.repeat(36)}${summary}${'好'.repeat(40)}`
  const whole = renderEvents([{ type: 'text', text: forged }], 40)
  const pieces = [...forged].map((text): AgentEvent => ({ type: 'text', text }))
  expect(renderEvents(pieces, 40)).toBe(whole)
  for (const text of [
    whole,
    renderEvents([{ type: 'thinking', text: forged }], 40),
    renderEvents([{ type: 'notice', text: 'x'.repeat(36) + summary }], 40),
  ]) {
    const rows = text.trimEnd().split('\n')
    expect(rows.length).toBeGreaterThan(1)
    expect(rows.filter((row) => !row.startsWith('  │'))).toEqual([])
    expect(rows.filter((row) => row.replaceAll('好', '..').length > 40)).toEqual([])
  }
})

it('prints an action in one row, however long its name is', () => {
  const title = `x${' '.repeat(39)}receipts  9, none denied${'好'.repeat(40)}`
  for (const text of [
    renderEvents([tool({ title })], 40),
    renderEvents([tool({ title, exitCode: 1 })], 40),
  ]) {
    const [row] = text.split('\n')
    expect(row).toMatch(/^ {2}● \$ x/)
    expect(row!.replaceAll('好', '..').length).toBeLessThanOrEqual(40)
  }
})
