import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { ReceiptRow } from '../store/store.ts'
import { type Column, printable, shortenCell, table } from './output.ts'
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

test('ordinary text stays unchanged', () => {
  const text = 'naïve Ключ 鍵 مفتاح 🔑 ✓ → … – “quoted”'
  expect(printable(text)).toBe(text)
})

test('a cell is one row, whatever it contains', () => {
  fc.assert(
    fc.property(fc.array(fc.string({ unit: 'binary' }), { minLength: 1, maxLength: 4 }), (values) => {
      const text = table([{ title: 'value', value: (value: string) => value }], values)
      expect(text.split(/[\n\r\u0085\u2028\u2029]/)).toHaveLength(values.length + 2)
    }),
  )
})

test('a table that is too wide shortens some columns, then drops others in their order, then shortens more', () => {
  const columns: readonly Column<readonly string[]>[] = [
    { title: 'name', value: ([name]) => name! },
    { title: 'folder', value: ([, folder]) => folder!, canShorten: true },
    { title: 'jobs', value: ([, , jobs]) => jobs!, dropOrder: 2 },
    { title: 'id', value: ([, , , id]) => id!, dropOrder: 1 },
  ]
  const rows = [
    ['parser', '/home/ada/projects/parser/of/things', '0', 'sbx_0123456789'],
    ['b', 'copy', '12', 'sbx_9876543210'],
  ]
  const at = (width?: number) => table(columns, rows, width).split('\n')[1]
  expect(at()).toBe('  parser  /home/ada/projects/parser/of/things  0     sbx_0123456789')
  expect(at(67)).toBe(at())
  expect(at(60)).toBe('  parser  …a/projects/parser/of/things  0     sbx_0123456789')
  expect(at(45)).toBe('  parser  …da/projects/parser/of/things  0')
  expect(at(30)).toBe('  parser  …ts/parser/of/things')
  expect(at(20)).toBe('  parser  …of/things')
  expect(at(5)).toBe('  parser  …/things')
})

test.each([
  ['an id keeps both of its ends', 'rcpt_01JCQ3V8Z0W4N5T6R7Y8K9M2PD', 14, 'rcpt_01JC…2PD'],
  ['an id keeps them behind its kind', 'sandbox/sbx_01JCQ3V8Z0W4N5T6R7Y8K9M2PD', 24, 'sandbox/sbx_01JC…2PD'],
  ['a path keeps its end', '/home/ada/projects/parser', 14, '…ojects/parser'],
  ['a path keeps its label, too', 'in place: /home/ada/projects/parser', 24, 'in place: …ojects/parser'],
  ['a relative path keeps its end', 'src/deep/parser.test.ts', 14, '…arser.test.ts'],
  ['a sentence keeps its beginning', 'the folder is gone', 14, 'the folder is…'],
  ['wide letters take two cells', '好好好好好', 7, '好好好…'],
  ['text that fits stays as it is', 'parser', 6, 'parser'],
])('%s', (_, text, width, cell) => {
  expect(shortenCell(text, width)).toBe(cell)
})

test('a table is no wider than the terminal as long as a column can be dropped or shortened', () => {
  const cells = fc.record({ name: fc.string({ maxLength: 30 }), folder: fc.string({ maxLength: 120 }) })
  const columns: readonly Column<{ readonly name: string; readonly folder: string }>[] = [
    { title: 'name', value: ({ name }) => name },
    { title: 'folder', value: ({ folder }) => folder, canShorten: true },
    { title: 'again', value: ({ folder }) => folder, dropOrder: 1 },
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
