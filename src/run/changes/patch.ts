/** A run’s changes as a patch, made of what was kept, without looking at a file of the workspace. */
import { setImmediate } from 'node:timers/promises'
import { structuredPatch } from 'diff'
import {
  type ChangeKind,
  changeKind,
  type State,
  type StoredChange,
  type StoredChangeSet,
} from './change-set.ts'
import type { ContentStore } from './content-store.ts'
import { CHANGE_LIMITS } from './limits.ts'

export interface FilePatch {
  readonly path: string
  readonly change: ChangeKind
  /** Null where the content is not text, is too large, or what was there before is not known. */
  readonly addedLines: number | null
  readonly removedLines: number | null
  /** Why lines are not shown, or what changed besides them. */
  readonly note: string | null
  /** Unified, with git’s headers. Content as it is: whoever shows it on a terminal has to make it fit. */
  readonly text: string
}

/** Beyond so many differing lines the answer costs more than it tells: then all old lines go and all new ones come. */
const MAX_EDITS = 4000
const LINES_AROUND = 3

/** In the order of the paths; one file’s contents are held at a time. */
export async function* patchOf(
  { record, contents }: StoredChangeSet,
  until: AbortSignal,
): AsyncGenerator<FilePatch> {
  for (const change of record.changes) {
    // Lets Ctrl-C in.
    await setImmediate()
    until.throwIfAborted()
    yield filePatch(change, contents)
  }
}

function filePatch(change: StoredChange, contents: ContentStore): FilePatch {
  const { path, before, after } = change
  if (before !== null && after !== null && before.kind !== after.kind) return exchanged(change, contents)
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

/** A file in place of a link, or the other way round: one goes and the other comes, as git has it. */
function exchanged(change: StoredChange, contents: ContentStore): FilePatch {
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

/** A link’s content is its target, as git has it. */
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

/** Of no lines, the one that they would follow. */
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
  const lines = [`diff --git ${quoted(`a/${path}`)} ${quoted(`b/${path}`)}`]
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
  // A blank in a name ends it for some readers; a tab after it says where it ends.
  return state === null ? '/dev/null' : `${quoted(`${side}/${path}`)}${/ /.test(path) ? '\t' : ''}`
}

/** As git writes names with quotes and backslashes; control characters are in none. */
function quoted(name: string): string {
  return /["\\]/.test(name) ? `"${name.replace(/["\\]/g, '\\$&')}"` : name
}
