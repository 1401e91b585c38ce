import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { ReceiptRow } from '../store/store.ts'
import { type Column, printable, table } from './output.ts'
import { describeReceipt } from './receipts/describe.ts'

test.each([
  ['a line break', 'a\nb', 'a␤b'],
  ['a tab', 'a\tb', 'a b'],
  ['a carriage return', 'a\rb', 'a�b'],
  ['an escape', 'a\u001b[2Kb', 'a�[2Kb'],
  ['a C1 control', 'a\u009b2Kb', 'a�2Kb'],
  ['a right-to-left override', 'a\u202eb', 'a�b'],
  ['an isolate', 'a\u2066b\u2069', 'a�b�'],
  ['a mark of direction', 'a\u200eb\u061cc', 'a�b�c'],
  ['a zero-width space', 'a\u200bb', 'a�b'],
  ['a byte order mark', '\ufeffa', '�a'],
  ['a line separator', 'a\u2028b\u2029c', 'a�b�c'],
  ['a tag', 'a\u{e0041}b', 'a�b'],
])('%s does not reach the terminal', (_, text, shown) => {
  expect(printable(text)).toBe(shown)
})

test('honest text stays as it is', () => {
  const text = 'naïve Ключ 鍵 مفتاح 🔑 ✓ → … – “quoted”'
  expect(printable(text)).toBe(text)
})

test('a cell is one row, whatever it holds', () => {
  fc.assert(
    fc.property(fc.array(fc.string({ unit: 'binary' }), { minLength: 1, maxLength: 4 }), (values) => {
      const text = table([{ title: 'value', value: (value: string) => value }], values)
      expect(text.split(/[\n\r\u0085\u2028\u2029]/)).toHaveLength(values.length + 2)
    }),
  )
})

test('a table that is too wide is shortened first, then loses columns in their order, then is shortened more', () => {
  const columns: readonly Column<readonly string[]>[] = [
    { title: 'name', value: ([name]) => name! },
    { title: 'folder', value: ([, folder]) => folder!, shortens: true },
    { title: 'jobs', value: ([, , jobs]) => jobs!, goes: 2 },
    { title: 'id', value: ([, , , id]) => id!, goes: 1 },
  ]
  const rows = [
    ['parser', '/home/ada/projects/parser/of/things', '0', 'sbx_0123456789'],
    ['b', 'copy', '12', 'sbx_9876543210'],
  ]
  const at = (width?: number) => table(columns, rows, width).split('\n')[1]
  expect(at()).toBe('  parser  /home/ada/projects/parser/of/things  0     sbx_0123456789')
  expect(at(67)).toBe(at())
  expect(at(60)).toBe('  parser  /home/ada/projects/parser/o…  0     sbx_0123456789')
  expect(at(45)).toBe('  parser  /home/ada/projects/…  0')
  expect(at(30)).toBe('  parser  /home/ada/projects/…')
  expect(at(20)).toBe('  parser  /home/ada…')
  expect(at(5)).toBe('  parser  /home/a…')
})

test('a table is no wider than the terminal as long as something can go or be shortened', () => {
  const cells = fc.record({ name: fc.string({ maxLength: 30 }), folder: fc.string({ maxLength: 120 }) })
  const columns: readonly Column<{ readonly name: string; readonly folder: string }>[] = [
    { title: 'name', value: ({ name }) => name },
    { title: 'folder', value: ({ folder }) => folder, shortens: true },
    { title: 'again', value: ({ folder }) => folder, goes: 1 },
  ]
  fc.assert(
    fc.property(fc.array(cells, { minLength: 1 }), fc.integer({ min: 44, max: 200 }), (rows, width) => {
      for (const line of table(columns, rows, width).split('\n'))
        expect(line.length).toBeLessThanOrEqual(width)
    }),
  )
})

test('a command cannot add rows to its receipt', () => {
  const stream = { preview: '', bytes: 0, sha256: '', complete: true }
  const receipt = {
    body: {
      id: 'rcpt_1',
      kind: 'shell_invocation',
      status: 'failed',
      links: {},
      shell: {
        command: 'false\n  status      passed',
        working_directory: '/tmp/x\n  decision    allow by strict.operator\u202e',
        outcome: 'exited',
        exit_code: 1,
        signal: null,
        stdout: stream,
        stderr: stream,
        duration_ms: 1,
        redactions_applied: [],
      },
    },
    seal: { seq: 1, at: '2026-03-01T12:00:00Z', kid: 'k', prev: '0'.repeat(64) },
  }
  const text = describeReceipt({ line: JSON.stringify(receipt), phase: 'end' } as ReceiptRow, undefined)
  expect(text.match(/^ +status /gm)).toHaveLength(1)
  expect(text).not.toMatch(/^ +decision /m)
  expect(text).not.toContain('\u202e')
  expect(text).toContain('false␤  status      passed')
})
