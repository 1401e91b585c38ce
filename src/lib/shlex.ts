/** Converts command lines to argument lists and back, by POSIX quoting rules and without a shell. */
import { CraikError } from '../errors.ts'

/** Linux accepts no single argument longer than this (MAX_ARG_STRLEN), so no line needs to be longer. */
const MAX_TEXT_BYTES = 128 * 1024
const MAX_WORDS = 4096
const BLANKS = ' \t\r\n'

/**
 * Splits a command line into its arguments, as Python's `shlex.split` does. Two rules follow POSIX where Python does
 * not. Inside double quotes, a backslash also escapes `$`, `` ` `` and a newline. A backslash before a newline removes
 * both. Globs, variables, pipes, redirections and substitutions are ordinary text.
 */
export function splitCommand(text: string): string[] {
  if (Buffer.byteLength(text) > MAX_TEXT_BYTES) {
    throw new CraikError('too_large', `the command is longer than ${MAX_TEXT_BYTES} bytes`, {
      hint: 'put the command in a script, and run the script',
    })
  }
  const nul = text.indexOf('\0')
  if (nul !== -1) throw new CraikError('usage', `the command has a NUL byte at ${formatLocation(text, nul)}`)

  const words: string[] = []
  let word: string | undefined
  for (let i = 0; i < text.length; i++) {
    const char = text[i]!
    if (BLANKS.includes(char)) {
      if (word !== undefined) words.push(word)
      word = undefined
    } else if (char === "'" || char === '"') {
      const part = char === "'" ? readSingleQuoted(text, i) : readDoubleQuoted(text, i)
      word = (word ?? '') + part.text
      i = part.end
    } else if (char === '\\') {
      i++
      if (i === text.length) throw trailingBackslash(text, i - 1)
      if (text[i] !== '\n') word = (word ?? '') + text[i]
    } else {
      word = (word ?? '') + char
    }
    if (words.length > MAX_WORDS) break
  }
  if (word !== undefined) words.push(word)
  if (words.length > MAX_WORDS)
    throw new CraikError('too_large', `the command has more than ${MAX_WORDS} arguments`, {
      hint: 'put the command in a script, and run the script',
    })
  if (words.length === 0) throw new CraikError('usage', 'nothing to run: the command is empty')
  return words
}

/** Returns the argument as one word of a command line: unquoted where that is safe, in single quotes otherwise. */
export function quoteArgument(argument: string): string {
  if (/^[A-Za-z0-9_@%+=:,./-]+$/.test(argument)) return argument
  return `'${argument.replaceAll("'", `'\\''`)}'`
}

/** Reverses `splitCommand`, for display. */
export function joinCommand(argv: readonly string[]): string {
  return argv.map(quoteArgument).join(' ')
}

interface Quoted {
  readonly text: string
  /** The index of the closing quote. */
  readonly end: number
}

function readSingleQuoted(text: string, open: number): Quoted {
  const end = text.indexOf("'", open + 1)
  if (end === -1) throw unclosedQuoteError(text, open, 'single')
  return { text: text.slice(open + 1, end), end }
}

function readDoubleQuoted(text: string, open: number): Quoted {
  let out = ''
  for (let i = open + 1; i < text.length; i++) {
    const char = text[i]!
    if (char === '"') return { text: out, end: i }
    const next = text[i + 1]
    if (char !== '\\' || next === undefined || !'"\\$`\n'.includes(next)) {
      out += char
      continue
    }
    if (next !== '\n') out += next
    i++
  }
  throw unclosedQuoteError(text, open, 'double')
}

function unclosedQuoteError(text: string, open: number, kind: 'single' | 'double'): CraikError {
  return new CraikError(
    'usage',
    `the ${kind} quote at ${formatLocation(text, open)} of the command is not closed`,
    {
      hint: 'close the quote, or escape it with a backslash',
    },
  )
}

function trailingBackslash(text: string, at: number): CraikError {
  return new CraikError(
    'usage',
    `the backslash at ${formatLocation(text, at)} of the command escapes nothing`,
    {
      hint: 'remove the backslash, or write \\\\ for a literal one',
    },
  )
}

/** Counts from 1, in characters as a reader sees them. Names the line only when there are several. */
function formatLocation(text: string, index: number): string {
  const lines = text.slice(0, index).split('\n')
  const column = `column ${[...lines.at(-1)!].length + 1}`
  return lines.length === 1 ? column : `line ${lines.length}, ${column}`
}
