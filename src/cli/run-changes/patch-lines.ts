/** Formats a patch whose content comes from a sandbox, so that it is safe to print to a terminal. */
import type { FilePatch } from '../../run/changes/patch.ts'
import { printable } from '../output.ts'

/** Replaces characters that move the cursor, hide text or change its direction. Works line by line and keeps tabs. */
export function fitForTerminal(patch: string): string {
  return patch
    .split('\n')
    .map((line) => line.split('\t').map(printable).join('\t'))
    .join('\n')
}

const RED = '\u001b[31m'
const GREEN = '\u001b[32m'
const CYAN = '\u001b[36m'
const BOLD = '\u001b[1m'
const PLAIN = '\u001b[0m'

/** Only for a patch that is safe to print already, because colors are control characters too. */
export function colourPatch(patch: string, { NO_COLOR }: NodeJS.ProcessEnv): string {
  if (NO_COLOR !== undefined && NO_COLOR !== '') return patch
  return patch
    .split('\n')
    .map((line) => {
      const colour = colourOf(line)
      return colour === '' ? line : `${colour}${line}${PLAIN}`
    })
    .join('\n')
}

function colourOf(line: string): string {
  if (/^(?:diff --git |--- |\+\+\+ )/.test(line)) return BOLD
  if (line.startsWith('@@')) return CYAN
  if (line.startsWith('+')) return GREEN
  return line.startsWith('-') ? RED : ''
}

/** Formats the line counts of one file, such as `+4 −1`. */
export function patchLines({
  addedLines,
  removedLines,
}: Pick<FilePatch, 'addedLines' | 'removedLines'>): string {
  return addedLines === null || removedLines === null ? '–' : `+${addedLines} −${removedLines}`
}
