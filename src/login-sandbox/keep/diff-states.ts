/** What changed in a sandbox between two looks at it, as Markdown. */
import type { SandboxState, StatePart } from './state.ts'

const TITLES: readonly (readonly [StatePart, string])[] = [
  ['debian', 'Debian packages'],
  ['npm', 'npm packages, global'],
  ['pip', 'Python packages of the user'],
  ['programs', 'Programs in ~/bin and ~/.local/bin'],
  ['environment', 'Environment'],
]

/** Says so when nothing did. */
export function diffStates(before: SandboxState, after: SandboxState): string {
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
  return names.flatMap((name) => {
    const [old, now] = [valueIn(before, name), valueIn(after, name)]
    if (old === now) return []
    if (old === undefined) return [`- added ${shown(name, now)}`]
    if (now === undefined) return [`- removed ${shown(name, old)}`]
    return [`- changed ${code(name)}: ${code(old)} → ${code(now)}`]
  })
}

function valueIn(entries: Entries, name: string): string | undefined {
  return Object.hasOwn(entries, name) ? entries[name] : undefined
}

function shown(name: string, value: string | undefined): string {
  return value === undefined || value === '' ? code(name) : `${code(name)} ${code(value)}`
}

/** What stands in it is neither HTML nor a link, and nothing in it ends it. */
function code(text: string): string {
  const longest = (text.match(/`+/g) ?? []).reduce((most, { length }) => Math.max(most, length), 0)
  const fence = '`'.repeat(longest + 1)
  const pad = text === '' || /^[` ]|[` ]$/.test(text) ? ' ' : ''
  return `${fence}${pad}${text}${pad}${fence}`
}
