/** Names of exported files: said by the guest, so made of letters, digits and dashes, and not long. */
import { type Conversation, turnText } from './conversation.ts'

const SLUG_CHARS = 60

/** Of the first prompt; what has no letters is called after its program. */
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

/** When it began, as the name of a folder: `2026-11-15T09-12-44Z`. */
export function timeFolderName(startedAtMs: number): string {
  return `${new Date(startedAtMs).toISOString().slice(0, 19).replaceAll(':', '-')}Z`
}
