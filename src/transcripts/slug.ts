/**
 * Creates the names of exported files. The text comes from the sandbox, so a name is short and contains only letters,
 * digits and dashes.
 */
import { type Conversation, turnText } from './conversation.ts'

const SLUG_CHARS = 60

/** Returns a slug of the first prompt, or the harness name when the prompt has no letters or digits. */
export function slugOf({ turns, harness }: Pick<Conversation, 'turns' | 'harness'>): string {
  const first = turns.find(({ role }) => role === 'user')
  const words = (first === undefined ? '' : turnText(first))
    .slice(0, 400)
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+/, '')
  if (words.length <= SLUG_CHARS) return words.replace(/-+$/, '') || harness
  const cut = words.slice(0, SLUG_CHARS + 1)
  const end = cut.lastIndexOf('-')
  return cut.slice(0, end > SLUG_CHARS / 2 ? end : SLUG_CHARS).replace(/-+$/, '')
}

/** Returns the time of the start as the name of a folder: `2026-11-15T09-12-44Z`. */
export function timeFolderName(startedAtMs: number): string {
  return `${new Date(startedAtMs).toISOString().slice(0, 19).replaceAll(':', '-')}Z`
}
