/** Splits the names in an archive into their components, and checks where its links lead. */
import { malformedArchiveError } from './header.ts'

/**
 * A path can have 4,095 bytes. The rest is for the folder in front of it when an engine unpacks it by its whole path.
 */
const NAME_BYTES = 4000
/** Each level is a folder to open on the way. No tree that a user created is deeper. */
const NAME_DEPTH = 256

/**
 * Returns the components of a name below the target folder, and none for the target itself. Throws for what no honest
 * archiver writes: absolute names, `..`, NUL.
 */
export function componentsOf(name: string): readonly string[] {
  if (name.includes('\0')) throw malformedArchiveError(`the name ${quoteName(name)} contains a NUL`)
  if (name.startsWith('/')) throw malformedArchiveError(`the name ${quoteName(name)} is absolute`)
  const components = name.split('/').filter((part) => part !== '' && part !== '.')
  if (components.includes('..')) throw malformedArchiveError(`the name ${quoteName(name)} contains ..`)
  return components
}

/**
 * Returns why an entry with that normalized name is left out. Packing and unpacking use the same rule. Folders can be
 * nested deeper than any path can name, and everything that is packed must be possible to unpack.
 */
export function nameProblem(name: string): 'name is too long' | 'too deep' | undefined {
  if (Buffer.byteLength(name) > NAME_BYTES) return 'name is too long'
  return name.split('/').length > NAME_DEPTH ? 'too deep' : undefined
}

/** The reader marks names that are not UTF-8 with a lone surrogate. */
export function isReadable(name: string): boolean {
  return name.isWellFormed()
}

/**
 * Returns whether a symbolic link in a folder `depth` levels below the target stays below it. Only leading `..` can be
 * counted, because after another link they start from wherever that leads.
 */
export function staysInside(link: string, depth: number): boolean {
  if (link === '' || link.startsWith('/') || link.includes('\0')) return false
  const parts = link.split('/').filter((part) => part !== '' && part !== '.')
  const upwards = parts.findIndex((part) => part !== '..')
  const leading = upwards === -1 ? parts.length : upwards
  return leading <= depth && !parts.slice(leading).includes('..')
}

/** Formats a name for display: short, and without characters that move a terminal's cursor. */
export function quoteName(name: string): string {
  return JSON.stringify(cleanName(name))
}

/** Does the same without quotes. */
export function cleanName(name: string): string {
  const clean = name.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, '?')
  return clean.length > 120 ? `${clean.slice(0, 120)}…` : clean
}
