/** Formats egress rules for output. */
import type { EgressRule } from '../../gateway/egress/rules.ts'
import type { Json } from '../../lib/canonical-json.ts'

/**
 * Formats the target of a rule: `registry.example.com:443`, `*.example.com:80,443/path (GET)`, or a preset's name and
 * the first of its hosts.
 */
export function formatTarget({ hosts, ports, methods, path, preset }: EgressRule): string {
  const on = ports === null ? '' : `:${ports.join(',')}`
  const which = `${hosts[0]}${on}${hosts.length === 1 ? '' : ` and ${hosts.length - 1} more`}`
  return `${preset === null ? '' : `${preset}: `}${which}${path ?? ''}${methods === null ? '' : ` (${methods.join(', ')})`}`
}

export function ruleJson(rule: EgressRule): { readonly [key: string]: Json } {
  return JSON.parse(JSON.stringify(rule)) as Record<string, Json>
}
