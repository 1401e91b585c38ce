/** Lines that cannot be checked without the next one. */
import { WRAPPED_LINE_MIN } from './base64.ts'
import { alphabet, runStart } from './characters.ts'
import { kindOfKey } from './secret-keys.ts'

const BASE64 = alphabet(/[A-Za-z0-9+/_-]/)
/** The length of a line's end that is checked. */
const TAIL = 240

const NAME_ENTRY =
  /(?:name|key|header)[\\"']{0,8}[ \t]?[:=][ \t]?[\\"']{0,8}([\w.$-]{1,96})[\\"']{0,8}[ \t]?,?[ \t]{0,8}$/i
const BLOCK_SCALAR = /:\s*[|>][+-]?\d?\s*$/

/** Wrapped base64, a YAML block scalar, and `name: DB_PASSWORD` before its `value:` continue on the next line. */
export function continuesOnNextLine(text: string, newline: number): boolean {
  const end = text[newline - 1] === '\r' ? newline - 1 : newline
  const run = text.slice(runStart(text, end, BASE64, Math.max(0, end - WRAPPED_LINE_MIN)), end)
  // A list of digests is not a wrapped file, so its lines are released as they arrive.
  if (run.length >= WRAPPED_LINE_MIN && !/^[0-9a-f]*$/i.test(run)) return true
  const window = text.slice(Math.max(0, end - TAIL), end)
  const line = window.slice(window.lastIndexOf('\n') + 1)
  if (BLOCK_SCALAR.test(line)) return true
  const name = NAME_ENTRY.exec(line)?.[1]
  return name !== undefined && kindOfKey(name) !== 'plain'
}
