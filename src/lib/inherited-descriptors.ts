/** Descriptors that would reach every program we start, although we never meant them to. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'

/** The close-on-exec flag, as Linux shows it. */
const CLOSE_ON_EXEC = 0o2000000

/**
 * Descriptors that whoever started us left open for our children. All that Node opens is closed on exec; nothing in
 * Node closes the others, so a child gets an empty file in their place.
 */
export function listInherited(): number[] {
  const open = existsSync('/proc/self/fdinfo') ? readdirSync('/proc/self/fdinfo') : []
  return open.map(Number).filter((descriptor) => descriptor > 2 && reachesChildren(descriptor))
}

function reachesChildren(descriptor: number): boolean {
  try {
    const info = readFileSync(`/proc/self/fdinfo/${descriptor}`, 'utf8')
    return (Number.parseInt(/^flags:\s*(\d+)/m.exec(info)?.[1] ?? '0', 8) & CLOSE_ON_EXEC) === 0
  } catch {
    // It was open only while the folder was listed.
    return false
  }
}
