/** Redaction of text that arrives in pieces. */
import { findSecrets, mayHoldSecret } from './find-secrets.ts'
import { mergeFindings, REDACTED_LABEL } from './findings.ts'
import { continuesOnNextLine } from './line-continuation.ts'
import { endOfPrivateKey, endsInsidePrivateKey } from './private-key-blocks.ts'
import { redactBetween } from './redact-text.ts'

/** A line is held whole up to this length; longer ones are cut where it is safe. */
const HELD_MAX = 65_536
/** What stays back when a long line is cut, so that a secret across the cut is still seen whole. */
const OVERLAP = 8_192
/** How much of the line already released is kept, for the key before a value. */
const CONTEXT = 512

export interface RedactStream {
  /** Takes the next piece of text and returns what can be shown now. */
  write(chunk: string): string
  /** Returns what was held back. */
  end(): string
  /** Names of the rules that fired so far, sorted, each once. */
  labels(): string[]
}

/**
 * Text is released line by line, and within a line word by word while nothing in it could begin a secret. Memory
 * stays within one held line, whatever arrives.
 */
export function createRedactStream(): RedactStream {
  const labels = new Set<string>()
  let parts: string[] = []
  let pendingLength = 0
  let context = ''
  let mode: 'text' | 'private key' | 'rest of token' | 'rest of line' = 'text'
  /** The current line holds a trigger: it waits for its end. */
  let held = false

  const keep = (rest: string) => {
    parts = rest === '' ? [] : [rest]
    pendingLength = rest.length
  }

  const masked = (text: string, after = ''): string => {
    const result = redactBetween(context, text, after)
    for (const label of result.labels) labels.add(label)
    return result.text
  }

  const released = (text: string) => {
    const tail = (context + text).slice(-CONTEXT)
    context = tail.slice(tail.lastIndexOf('\n') + 1)
  }

  const drain = (): string => {
    let pending = parts.join('')
    let out = ''
    const take = (length: number) => {
      const text = pending.slice(0, length)
      // A whole line needs nothing after it; a cut one is judged with what follows the cut.
      out += masked(text, text.endsWith('\n') ? '' : pending.slice(length, length + OVERLAP))
      if (endsInsidePrivateKey(context + text)) mode = 'private key'
      released(text)
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
          released(words)
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
      // Nothing can be released before a word or, once held, a line is complete; so small pieces are only collected.
      const waitsFor = held ? '\n' : /\s/
      if (mode === 'text' && pendingLength <= HELD_MAX && chunk.search(waitsFor) === -1) return ''
      return drain()
    },
    end() {
      const out = drain()
      const rest = mode === 'text' ? masked(parts.join('')) : ''
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
  /** How much of the pending text is complete. */
  readonly length: number
  /** The text goes on inside something too long to hold: what to suppress next. */
  readonly overlong?: 'rest of token' | 'rest of line'
  /** What is suppressed next has its label already. */
  readonly masked?: boolean
}

/** Where a line too long to hold can be cut without cutting a secret. */
function cutOf(context: string, pending: string): Cut {
  const text = context + pending
  const limit = text.length - OVERLAP
  let boundary = limit
  while (boundary > context.length && !/[\s,;&"'`]/.test(text[boundary - 1]!)) boundary--
  const merged = mergeFindings(text, findSecrets(text))
  const across = merged.find(({ start, end }) => start < boundary && end >= boundary)
  if (across !== undefined && across.end < text.length) return { length: across.end - context.length }
  const open = across ?? merged.find(({ start, end }) => start <= limit && end === text.length)
  // The end marker of a key block may itself be cut: what follows the limit is looked through again.
  if (open !== undefined && endsInsidePrivateKey(text.slice(0, limit)))
    return { length: limit - context.length }
  if (open !== undefined) {
    const start = Math.max(context.length, open.start)
    const wholeLine = /["'`]$/.test(text.slice(0, start)) || /[\s"'`]/.test(text.slice(start, open.end))
    return { length: pending.length, masked: true, overlong: wholeLine ? 'rest of line' : 'rest of token' }
  }
  // No delimiter in a whole overlap: one word longer than any credential we know, masked as if it were one.
  if (boundary < limit - OVERLAP) return { length: boundary - context.length, overlong: 'rest of token' }
  return { length: boundary - context.length }
}
