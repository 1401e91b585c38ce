/** The counts that the wire servers report when a script does not say any. */
import type { Act, WireUsage } from './wire-server.ts'

const USAGE: WireUsage = { input: 120, cacheRead: 20, output: 30 }

/** What to write where the dialect has its counts: the script's own value, or counts spelled by the dialect. */
export function usageOf(
  act: Extract<Act, { kind: 'text' | 'tool_call' }>,
  spell: (usage: WireUsage) => unknown,
): unknown {
  if (act.usage === 'none') return undefined
  if (act.usage !== undefined && 'raw' in act.usage) return act.usage.raw
  return spell(act.usage ?? USAGE)
}

/** Two halves, so that whoever reads has to join pieces. */
export function halves(text: string): [string, string] {
  const middle = Math.ceil(text.length / 2)
  return [text.slice(0, middle), text.slice(middle)]
}

export function argumentText(value: Readonly<Record<string, unknown>> | string): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}
