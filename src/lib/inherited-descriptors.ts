/** Descriptors that every program that Craik starts would inherit by accident. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'

/** The close-on-exec flag, as Linux reports it. */
const CLOSE_ON_EXEC = 0o2000000

/**
 * Returns the descriptors that the parent of this process left open for its children. All that Node opens is closed on
 * exec. Nothing in Node closes the others, so a child gets an empty file in their place.
 */
export function listInherited(): number[] {
  const open = existsSync('/proc/self/fdinfo') ? readdirSync('/proc/self/fdinfo') : []
  return open.map(Number).filter((descriptor) => descriptor > 2 && isInherited(descriptor))
}

function isInherited(descriptor: number): boolean {
  try {
    const info = readFileSync(`/proc/self/fdinfo/${descriptor}`, 'utf8')
    return (Number.parseInt(/^flags:\s*(\d+)/m.exec(info)?.[1] ?? '0', 8) & CLOSE_ON_EXEC) === 0
  } catch {
    // The descriptor was open only while the folder was listed.
    return false
  }
}
