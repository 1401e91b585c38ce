/** A run’s changes as a patch, made from the stored contents without reading the workspace. */
import { setImmediate } from 'node:timers/promises'
import { structuredPatch } from 'diff'
import { CHANGE_LIMITS } from './change-limits.ts'
import {
  type ChangeKind,
  changeKind,
  type State,
  type StoredChange,
  type StoredChangeSet,
} from './change-set.ts'
import type { ContentStore } from './content-store.ts'

export interface FilePatch {
  readonly path: string
  readonly change: ChangeKind
  /** Null when the content is not text, is too large, or the old content is unknown. */
  readonly addedLines: number | null
  readonly removedLines: number | null
  /** Why lines are missing, or what changed besides them. */
  readonly note: string | null
  /** Unified, with git’s headers. The content is not escaped: a caller that prints it to a terminal must do that. */
  readonly text: string
}

/** Above this number of differing lines, a comparison costs more than it helps. The patch then replaces all lines. */
const MAX_EDITS = 4000
const LINES_AROUND = 3

/** Yields patches sorted by path, and holds one file’s contents at a time. */
export async function* patchOf(
  { record, contents }: StoredChangeSet,
  until: AbortSignal,
): AsyncGenerator<FilePatch> {
  for (const change of record.changes) {
    // Lets the process handle Ctrl-C.
    await setImmediate()
    until.throwIfAborted()
    yield filePatch(change, contents)
  }
}

function filePatch(change: StoredChange, contents: ContentStore): FilePatch {
  const { path, before, after } = change
  if (before !== null && after !== null && before.kind !== after.kind) return replacePatch(change, contents)
  const old = textOf(before, contents)
  const now = isSameContent(before, after) ? old : textOf(after, contents)
  const notes = [
    modeNote(before, after),
    ...(isSameContent(before, after) ? [] : [old.problem && `before: ${old.problem}`, now.problem]),
  ]
  const note = notes.filter((one) => one !== undefined).join('; ') || null
  const base = { path, change: changeKind(change), note }
  const head = headOf(change)
  if (isSameContent(before, after)) return { ...base, addedLines: 0, removedLines: 0, text: head }
  if (old.text === undefined || now.text === undefined) {
    const text = `${head}Binary files ${nameOf('a', path, before)} and ${nameOf('b', path, after)} differ\n`
    return { ...base, addedLines: null, removedLines: null, text }
  }
  const lines = hunksOf(old.text, now.text)
  const names = `--- ${nameOf('a', path, before)}\n+++ ${nameOf('b', path, after)}\n`
  return {
    ...base,
    addedLines: lines.filter((line) => line.startsWith('+')).length,
    removedLines: lines.filter((line) => line.startsWith('-')).length,
    text: lines.length === 0 ? head : `${head}${names}${lines.map((line) => `${line}\n`).join('')}`,
  }
}

/** A file that replaces a link, or a link that replaces a file: one removal and one addition, as in git. */
function replacePatch(change: StoredChange, contents: ContentStore): FilePatch {
  const gone = filePatch({ ...change, after: null }, contents)
  const come = filePatch({ ...change, before: null }, contents)
  return {
    path: change.path,
    change: 'changed',
    note: modeNote(change.before, change.after) ?? null,
    addedLines: come.addedLines,
    removedLines: gone.removedLines,
    text: gone.text + come.text,
  }
}

/** As in git, a link’s content is its target. */
function textOf(
  state: State | null,
  contents: ContentStore,
): { readonly text?: string; readonly problem?: string } {
  if (state === null) return { text: '' }
  if (state.kind === 'link') return { text: state.target }
  if (state.bytes > CHANGE_LIMITS.diffedBytes) return { problem: 'too large to show' }
  const content = contents.get(state.digest)
  if (content === undefined) return { problem: 'no longer available' }
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(content)
    return text.includes('\0') ? { problem: 'binary' } : { text }
  } catch {
    return { problem: 'binary' }
  }
}

function hunksOf(old: string, now: string): readonly string[] {
  const patch = structuredPatch('', '', old, now, undefined, undefined, {
    context: LINES_AROUND,
    maxEditLength: MAX_EDITS,
  })
  if (patch === undefined) return [...wholly(old, now)]
  return patch.hunks.flatMap(({ oldStart, oldLines, newStart, newLines, lines }) => [
    `@@ -${startOf(oldStart, oldLines)},${oldLines} +${startOf(newStart, newLines)},${newLines} @@`,
    ...lines,
  ])
}

/** For zero lines, returns the line before them. */
function startOf(start: number, lines: number): number {
  return lines === 0 ? start - 1 : start
}

function* wholly(old: string, now: string): Generator<string> {
  const [was, is] = [linesOf(old), linesOf(now)]
  yield `@@ -${was.length === 0 ? 0 : 1},${was.length} +${is.length === 0 ? 0 : 1},${is.length} @@`
  for (const [sign, lines, text] of [
    ['-', was, old],
    ['+', is, now],
  ] as const) {
    for (const line of lines) yield `${sign}${line}`
    if (text !== '' && !text.endsWith('\n')) yield '\\ No newline at end of file'
  }
}

function linesOf(text: string): readonly string[] {
  if (text === '') return []
  return (text.endsWith('\n') ? text.slice(0, -1) : text).split('\n')
}

function headOf({ path, before, after }: StoredChange): string {
  const lines = [`diff --git ${quote(`a/${path}`)} ${quote(`b/${path}`)}`]
  const [was, is] = [gitMode(before), gitMode(after)]
  if (was === undefined) lines.push(`new file mode ${is}`)
  else if (is === undefined) lines.push(`deleted file mode ${was}`)
  else if (was !== is) lines.push(`old mode ${was}`, `new mode ${is}`)
  return lines.map((line) => `${line}\n`).join('')
}

function gitMode(state: State | null): string | undefined {
  if (state === null) return undefined
  if (state.kind === 'link') return '120000'
  return state.executable ? '100755' : '100644'
}

function modeNote(before: State | null, after: State | null): string | undefined {
  if (after?.kind === 'link') return `link to ${after.target}`
  if (before?.kind === 'link' && after !== null) return 'a file replaces a link'
  if (after?.kind !== 'file') return undefined
  const was = before?.kind === 'file' && before.executable
  if (was === after.executable) return undefined
  return after.executable ? 'now executable' : 'no longer executable'
}

function isSameContent(before: State | null, after: State | null): boolean {
  return before?.kind === 'file' && after?.kind === 'file' && before.digest === after.digest
}

function nameOf(side: 'a' | 'b', path: string, state: State | null): string {
  // Some readers end a name at a blank. A tab after the name marks its end.
  return state === null ? '/dev/null' : `${quote(`${side}/${path}`)}${/ /.test(path) ? '\t' : ''}`
}

/** Quotes names as git does if they contain quotes or backslashes. No name contains control characters. */
function quote(name: string): string {
  return /["\\]/.test(name) ? `"${name.replace(/["\\]/g, '\\$&')}"` : name
}
