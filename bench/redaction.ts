/** Times redaction against its budget of one millisecond per 10 KB. */
import { redactText } from '../src/receipts/redaction/redact.ts'
import { median, type Row } from './measure.ts'

const BYTES = 10_240
const BUDGET_MS = 1
const ROUNDS = 600

export async function redactionRows(): Promise<Row[]> {
  return Object.entries(TEXTS).map(([name, line]) => {
    const text = line.repeat(Math.ceil(BYTES / line.length)).slice(0, BYTES)
    const times = Array.from({ length: ROUNDS }, () => {
      const started = performance.now()
      redactText(text)
      return performance.now() - started
    })
    const ours = median(times.slice(300))
    return {
      what: `redacting 10 KB: ${name}`,
      against: 'a budget of 1 ms',
      ours: `${ours.toFixed(3)} ms`,
      theirs: `${BUDGET_MS} ms`,
      ratio: ours / BUDGET_MS,
      bar: { atMost: 1 },
      command: 'npm run bench -- redaction',
    }
  })
}

const TEXTS = {
  'output of a test run':
    ' ✓ src/parser.test.ts (12 tests) 214ms\n   passes a comment at the end of input, token by token\n',
  'a secret in every line': `export API_TOKEN=${'ghp'}_0123456789abcdefghijABCDEFGHIJ012345 # deploy key\n`,
  'one unbroken run of letters': 'a',
}
