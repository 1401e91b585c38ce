/** Writes the state of a sandbox at entry, its current state and the changes to the user's inbox. */
import { lstatSync, readdirSync, rmSync } from 'node:fs'
import { resolve } from 'node:path'
import { CraikError } from '../../errors.ts'
import { readPrivateFile, writePrivateFile } from '../../lib/private-files.ts'
import type { OpenFolder } from '../../lib/safe-tar/open-folder.ts'
import { enterOwn, openInbox, toExportError } from '../../transcripts/export/own-folder.ts'
import { diffStates } from './diff-states.ts'
import { isSameState, type SavedState, sandboxState } from './sandbox-state.ts'

export interface SnapshotFiles {
  readonly inbox: string
  /** The time of entry, as the name of a folder: `2026-11-15T09-12-44Z`. */
  readonly isoTimestamp: string
  readonly entry: SavedState
  /** The current state, or the last one. */
  readonly exit: SavedState
}

const TIMESTAMP = /^\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ$/
/** Matches the name of an incomplete file whose writer was killed. */
const LEFT_OVER = /^\.(?:entry\.json|exit\.json|changes\.md)\.[0-9a-f]{16}\.tmp$/
/** More than any state needs. */
const MAX_BYTES = 16 * 1024 * 1024

/**
 * Returns the folder. When nothing changed since the sandbox was entered, it returns undefined and creates no folder.
 * It writes nothing while nothing changes, because an inbox can be in git.
 */
export async function writeSnapshot({
  inbox,
  isoTimestamp,
  entry,
  exit,
}: SnapshotFiles): Promise<string | undefined> {
  if (!TIMESTAMP.test(isoTimestamp))
    throw new CraikError(
      'internal',
      `cannot save the changes in the sandbox to ${inbox}: ${JSON.stringify(isoTimestamp)} is not a valid time of entry`,
    )
  const path = `${resolve(inbox)}/${isoTimestamp}`
  const outer = await openInbox(inbox)
  try {
    // An existing folder reports changes. It must also report when they were undone.
    const isThere = lstatSync(outer.at(isoTimestamp), { throwIfNoEntry: false }) !== undefined
    if (!isThere && isSameState(entry, exit)) return undefined
    const folder = await enterOwn(outer, isoTimestamp, path)
    try {
      removeLeftOvers(folder)
      const last = lastState(folder)
      const now = last !== undefined && isSameState(last, exit) ? last : exit
      replace(folder, 'entry.json', json(entry))
      replace(folder, 'exit.json', json(now))
      replace(folder, 'changes.md', diffStates(entry, now))
    } catch (error) {
      throw toExportError(error, path)
    } finally {
      await folder.close()
    }
  } finally {
    await outer.close()
  }
  return path
}

/** Returns the state of the last write. Undefined for any other content. */
function lastState(folder: OpenFolder): SavedState | undefined {
  try {
    return sandboxState.parse(JSON.parse(readPrivateFile(folder.at('exit.json'), MAX_BYTES).toString()))
  } catch {
    return undefined
  }
}

function json(state: SavedState): string {
  return `${JSON.stringify(state, undefined, 2)}\n`
}

/** Replaces the file in one step, whatever it was before. A link is replaced and not followed. */
function replace(folder: OpenFolder, name: string, content: string): void {
  const path = folder.at(name)
  const found = lstatSync(path, { throwIfNoEntry: false })
  if (found?.isDirectory())
    throw new CraikError('export_failed', `${name} of a snapshot in the inbox is a folder`, {
      hint: `move the folder ${name} away, or choose another inbox`,
    })
  if (found?.isFile() && isSame(path, content)) return
  writePrivateFile(path, content, name)
}

function isSame(path: string, content: string): boolean {
  try {
    return readPrivateFile(path, MAX_BYTES).equals(Buffer.from(content))
  } catch {
    return false
  }
}

function removeLeftOvers(folder: OpenFolder): void {
  for (const name of readdirSync(folder.path))
    if (LEFT_OVER.test(name)) rmSync(folder.at(name), { force: true })
}
