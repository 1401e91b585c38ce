/** The counts that the wire servers report when a script contains none. */
import type { Act, WireUsage } from './wire-server.ts'

const USAGE: WireUsage = { input: 120, cacheRead: 20, output: 30 }

/** Returns the usage to send: the raw value of the script, or counts in the format of the dialect. */
export function usageOf(
  act: Extract<Act, { kind: 'text' | 'tool_call' }>,
  spell: (usage: WireUsage) => unknown,
): unknown {
  if (act.usage === 'none') return undefined
  if (act.usage !== undefined && 'raw' in act.usage) return act.usage.raw
  return spell(act.usage ?? USAGE)
}

/** Splits a text into two halves, so that the reader must join pieces. */
export function halves(text: string): [string, string] {
  const middle = Math.ceil(text.length / 2)
  return [text.slice(0, middle), text.slice(middle)]
}

export function argumentText(value: Readonly<Record<string, unknown>> | string): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}
