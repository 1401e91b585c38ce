/** Redaction of text that arrives in chunks. */
import { findSecrets, mayHoldSecret } from './find-secrets.ts'
import { mergeFindings, REDACTED_LABEL } from './findings.ts'
import { continuesOnNextLine } from './line-continuation.ts'
import { endOfPrivateKey, endsInsidePrivateKey } from './private-key-blocks.ts'
import { redactBetween } from './redact-text.ts'

/** Lines up to this length are held whole. Longer ones are cut where it is safe. */
const HELD_MAX = 65_536
/** The amount held back when a long line is cut, so that a secret across the cut is still seen whole. */
const OVERLAP = 8_192
/** How much released text of the line is kept, for the key before a value. */
const CONTEXT = 512

export interface RedactStream {
  /** Adds a chunk and returns the text that can be released. */
  write(chunk: string): string
  /** Returns the remaining text. */
  end(): string
  /** The names of the rules that matched so far, sorted, without duplicates. */
  labels(): string[]
}

/**
 * Creates a stream that releases text line by line, and within a line word by word while no word could begin a secret.
 * Its memory stays within one held line for any input.
 */
export function createRedactStream(): RedactStream {
  const labels = new Set<string>()
  let parts: string[] = []
  let pendingLength = 0
  let context = ''
  let mode: 'text' | 'private key' | 'rest of token' | 'rest of line' = 'text'
  /** The current line contains a trigger and waits for its end. */
  let held = false

  const keep = (rest: string) => {
    parts = rest === '' ? [] : [rest]
    pendingLength = rest.length
  }

  const mask = (text: string, after = ''): string => {
    const result = redactBetween(context, text, after)
    for (const label of result.labels) labels.add(label)
    return result.text
  }

  const rememberContext = (text: string) => {
    const tail = (context + text).slice(-CONTEXT)
    context = tail.slice(tail.lastIndexOf('\n') + 1)
  }

  const drain = (): string => {
    let pending = parts.join('')
    let out = ''
    const take = (length: number) => {
      const text = pending.slice(0, length)
      // A whole line needs no following text. A cut line is checked with the text after the cut.
      out += mask(text, text.endsWith('\n') ? '' : pending.slice(length, length + OVERLAP))
      if (endsInsidePrivateKey(context + text)) mode = 'private key'
      rememberContext(text)
      pending = pending.slice(length)
    }
    for (;;) {
      if (mode !== 'text') {
        const end = endOfSuppressed(pending, mode)
        pending = pending.slice(end.at)
        if (!end.found) break
        mode = 'text'
        context = ''
        held = false
        continue
      }
      const newline = pending.lastIndexOf('\n')
      if (newline !== -1 && !continuesOnNextLine(context + pending, context.length + newline)) {
        take(newline + 1)
        held = false
        continue
      }
      if (!held) {
        const words = pending.slice(0, lastSpace(pending) + 1)
        held = words !== '' && mayHoldSecret(context + words)
        if (!held) {
          out += words
          rememberContext(words)
          pending = pending.slice(words.length)
        }
      }
      if (pending.length <= HELD_MAX) break
      const cut = cutOf(context, pending)
      if (cut.length > 0) take(cut.length)
      if (mode === 'text' && cut.overlong) {
        out += cut.masked ? '' : REDACTED_LABEL
        labels.add('overlong')
        mode = cut.overlong
      }
    }
    keep(pending)
    return out
  }

  return {
    write(chunk) {
      parts.push(chunk)
      pendingLength += chunk.length
      // Nothing can be released before a word (or a held line) is complete, so small chunks are only collected.
      const waitsFor = held ? '\n' : /\s/
      if (mode === 'text' && pendingLength <= HELD_MAX && chunk.search(waitsFor) === -1) return ''
      return drain()
    },
    end() {
      const out = drain()
      const rest = mode === 'text' ? mask(parts.join('')) : ''
      keep('')
      context = ''
      return out + rest
    },
    labels: () => [...labels].sort(),
  }
}

function endOfSuppressed(
  text: string,
  mode: 'private key' | 'rest of token' | 'rest of line',
): { readonly found: boolean; readonly at: number } {
  if (mode === 'private key') {
    const close = endOfPrivateKey(text)
    return 'end' in close ? { found: true, at: close.end } : { found: false, at: close.keepFrom }
  }
  const at = text.search(mode === 'rest of line' ? /\n/ : /[\s"'`]/)
  return at === -1 ? { found: false, at: text.length } : { found: true, at }
}

function lastSpace(text: string): number {
  for (let at = text.length - 1; at >= 0; at--) if (/\s/.test(text[at]!)) return at
  return -1
}

interface Cut {
  /** The length of the pending text that is complete. */
  readonly length: number
  /** The text continues inside a value that is too long to hold: what to mask next. */
  readonly overlong?: 'rest of token' | 'rest of line'
  /** The masked value already has its label. */
  readonly masked?: boolean
}

/** Returns where a line that is too long to hold can be cut without cutting a secret. */
function cutOf(context: string, pending: string): Cut {
  const text = context + pending
  const limit = text.length - OVERLAP
  let boundary = limit
  while (boundary > context.length && !/[\s,;&"'`]/.test(text[boundary - 1]!)) boundary--
  const merged = mergeFindings(text, findSecrets(text))
  const across = merged.find(({ start, end }) => start < boundary && end >= boundary)
  if (across !== undefined && across.end < text.length) return { length: across.end - context.length }
  const open = across ?? merged.find(({ start, end }) => start <= limit && end === text.length)
  // The end marker of a key block can be cut itself, so the text after the limit is searched again.
  if (open !== undefined && endsInsidePrivateKey(text.slice(0, limit)))
    return { length: limit - context.length }
  if (open !== undefined) {
    const start = Math.max(context.length, open.start)
    const wholeLine = /["'`]$/.test(text.slice(0, start)) || /[\s"'`]/.test(text.slice(start, open.end))
    return { length: pending.length, masked: true, overlong: wholeLine ? 'rest of line' : 'rest of token' }
  }
  // A whole overlap without a delimiter is a word longer than any known credential. It is masked like one.
  if (boundary < limit - OVERLAP) return { length: boundary - context.length, overlong: 'rest of token' }
  return { length: boundary - context.length }
}
