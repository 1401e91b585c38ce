/** Environment metadata describes where something ran, never its content. Payload keys are dropped, not masked. */

import { redactText } from './redact-text.ts'
import { childPath, indexPath } from './value-paths.ts'

/** Written without separators and in lower case, so that `rawCommand` and `raw-command` match `raw_command` too. */
const PAYLOAD_KEYS = new Set(
  `command commandpayload credentials env environment environmentvariables payload rawcommand secret stderr stdin stdout
  target targetpayload`.split(/\s+/),
)
const DEPTH_MAX = 64

export function isPayloadKey(key: string): boolean {
  return PAYLOAD_KEYS.has(key.toLowerCase().replace(/[^a-z]/g, ''))
}

/** Returns a copy without payload keys at any depth, and the paths of the dropped members. */
export function dropPayloadKeys<T>(value: T): { readonly value: T; readonly dropped: string[] } {
  const dropped: string[] = []
  const ancestors = new Set<object>()

  const visit = (node: unknown, path: string, depth: number): unknown => {
    if (typeof node !== 'object' || node === null || node instanceof Date) return node
    // A value that cannot be read completely is dropped like a payload.
    if (depth > DEPTH_MAX || ancestors.has(node)) {
      dropped.push(path)
      return null
    }
    ancestors.add(node)
    const copy = Array.isArray(node)
      ? node.map((item, index) => visit(item, indexPath(path, index), depth + 1))
      : Object.fromEntries(
          Object.entries(node).flatMap(([key, member]): [string, unknown][] => {
            const at = childPath(path, redactText(key).text)
            if (!isPayloadKey(key)) return [[key, visit(member, at, depth + 1)]]
            dropped.push(at)
            return []
          }),
        )
    ancestors.delete(node)
    return copy
  }

  return { value: visit(value, '$', 0) as T, dropped }
}
