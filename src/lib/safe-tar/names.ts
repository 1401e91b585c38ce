/** The names in an archive, cut into their components, and where its links lead. */
import { broken } from './header.ts'

const NAME_BYTES = 4096
/** Each is a folder to be opened on the way; no tree that a person made is deeper. */
const DEPTH = 256

/**
 * The components of a name below the target folder; none for the target itself. Throws for what no honest archiver
 * writes: absolute names, `..`, NUL, names that are too long.
 */
export function componentsOf(name: string): readonly string[] {
  if (name.includes('\0')) throw broken(`the name ${shown(name)} holds a NUL`)
  if (Buffer.byteLength(name) > NAME_BYTES) throw broken(`a name is longer than ${NAME_BYTES} bytes`)
  if (name.startsWith('/')) throw broken(`the name ${shown(name)} is absolute`)
  const components = name.split('/').filter((part) => part !== '' && part !== '.')
  if (components.includes('..')) throw broken(`the name ${shown(name)} leads upwards`)
  if (components.length > DEPTH) throw broken(`a name is more than ${DEPTH} folders deep`)
  return components
}

/** Names that are no UTF-8 are marked so by the reader. */
export function isReadable(name: string): boolean {
  return name.isWellFormed()
}

/**
 * Whether a symbolic link in a folder `depth` levels below the target stays below it. Only leading `..` can be
 * judged by counting: behind another link they start from wherever that leads.
 */
export function staysInside(link: string, depth: number): boolean {
  if (link === '' || link.startsWith('/') || link.includes('\0')) return false
  const parts = link.split('/').filter((part) => part !== '' && part !== '.')
  const upwards = parts.findIndex((part) => part !== '..')
  const leading = upwards === -1 ? parts.length : upwards
  return leading <= depth && !parts.slice(leading).includes('..')
}

/** For a person's eyes: short, and without what moves a terminal's cursor. */
export function shown(name: string): string {
  const clean = name.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, '?')
  return JSON.stringify(clean.length > 120 ? `${clean.slice(0, 120)}…` : clean)
}
