/** Lists the changes between two states of a sandbox, as Markdown. */
import type { SavedState, StatePart } from './sandbox-state.ts'

const TITLES: readonly (readonly [StatePart, string])[] = [
  ['debian', 'Debian packages'],
  ['npm', 'npm packages, global'],
  ['pip', 'Python packages of the user'],
  ['programs', 'Programs in ~/bin and ~/.local/bin'],
  ['environment', 'Environment'],
]

/**
 * The most lines for one part, because the user reads them. `entry.json` and `exit.json` next to it contain everything.
 */
const LISTED = 200

/** Returns the Markdown text, which also says when nothing changed. */
export function diffStates(before: SavedState, after: SavedState): string {
  const sections = TITLES.flatMap(([part, title]) => {
    const lines = linesOf(before[part], after[part])
    return lines.length === 0 ? [] : [`## ${title}\n\n${lines.join('\n')}\n`]
  })
  const head = `# Changes in the sandbox\n\nFrom ${before.takenAt} to ${after.takenAt}.\n`
  return [head, ...(sections.length === 0 ? ['Nothing changed.\n'] : sections)].join('\n')
}

type Entries = Readonly<Record<string, string>>

function linesOf(before: Entries, after: Entries): string[] {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort()
  const totals = { added: 0, changed: 0, removed: 0 }
  const lines: string[] = []
  for (const name of names) {
    const [old, now] = [valueIn(before, name), valueIn(after, name)]
    if (old === now) continue
    const how = old === undefined ? 'added' : now === undefined ? 'removed' : 'changed'
    totals[how]++
    if (lines.length === LISTED) continue
    const what =
      how === 'changed'
        ? `${code(name)}: ${code(old!)} → ${code(now!)}`
        : formatNameAndValue(name, now ?? old)
    lines.push(`- ${how} ${what}`)
  }
  const left = totals.added + totals.changed + totals.removed - lines.length
  return left === 0 ? lines : [...lines, `- and ${formatCount(left)} more, of ${ofAll(totals)}`]
}

/** Returns text such as `12 added, 3 changed, 1 removed in all`. */
function ofAll(totals: Readonly<Record<string, number>>): string {
  const parts = Object.entries(totals).flatMap(([how, count]) =>
    count === 0 ? [] : [`${formatCount(count)} ${how}`],
  )
  return `${parts.join(', ')} in all: see entry.json and exit.json`
}

function formatCount(count: number): string {
  return count.toLocaleString('en')
}

function valueIn(entries: Entries, name: string): string | undefined {
  return Object.hasOwn(entries, name) ? entries[name] : undefined
}

function formatNameAndValue(name: string, value: string | undefined): string {
  return value === undefined || value === '' ? code(name) : `${code(name)} ${code(value)}`
}

/** Formats text as a code span. Markdown reads no HTML or link in it, and the text cannot end the span. */
function code(text: string): string {
  const longest = (text.match(/`+/g) ?? []).reduce((most, { length }) => Math.max(most, length), 0)
  const fence = '`'.repeat(longest + 1)
  const pad = text === '' || /^[` ]|[` ]$/.test(text) ? ' ' : ''
  return `${fence}${pad}${text}${pad}${fence}`
}
