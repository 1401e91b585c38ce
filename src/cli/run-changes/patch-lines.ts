/** A patch whose content a sandbox wrote, as a terminal may show it. */
import type { FilePatch } from '../../run/changes/patch.ts'
import { printable } from '../output.ts'

/** Line by line, with tabs as they are: nothing that moves the cursor, hides or turns text round. */
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

/** Only of what was made fit before: colours are control characters too. */
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

/** `+4 −1`, as it is told of one file. */
export function patchLines({
  addedLines,
  removedLines,
}: Pick<FilePatch, 'addedLines' | 'removedLines'>): string {
  return addedLines === null || removedLines === null ? '–' : `+${addedLines} −${removedLines}`
}
