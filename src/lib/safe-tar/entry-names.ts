/** The names in an archive, cut into their components, and where its links lead. */
import { malformedArchiveError } from './header.ts'

/** A path can be spelt with 4,095: the rest is for what comes before it where an engine unpacks it by its whole path. */
const NAME_BYTES = 4000
/** Each is a folder to be opened on the way; no tree that a person made is deeper. */
const NAME_DEPTH = 256

/**
 * The components of a name below the target folder; none for the target itself. Throws for what no honest archiver
 * writes: absolute names, `..`, NUL.
 */
export function componentsOf(name: string): readonly string[] {
  if (name.includes('\0')) throw malformedArchiveError(`the name ${quoteName(name)} contains a NUL`)
  if (name.startsWith('/')) throw malformedArchiveError(`the name ${quoteName(name)} is absolute`)
  const components = name.split('/').filter((part) => part !== '' && part !== '.')
  if (components.includes('..')) throw malformedArchiveError(`the name ${quoteName(name)} contains ..`)
  return components
}

/**
 * Why an entry of that name, spelt without detours, is left out. Whoever packs and whoever unpacks ask here: folders can
 * be nested further than any path can spell, and what is packed has to be what is unpacked.
 */
export function nameProblem(name: string): 'name is too long' | 'too deep' | undefined {
  if (Buffer.byteLength(name) > NAME_BYTES) return 'name is too long'
  return name.split('/').length > NAME_DEPTH ? 'too deep' : undefined
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
export function quoteName(name: string): string {
  return JSON.stringify(cleanName(name))
}

/** The same without quotes. */
export function cleanName(name: string): string {
  const clean = name.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, '?')
  return clean.length > 120 ? `${clean.slice(0, 120)}…` : clean
}
