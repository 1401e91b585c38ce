/**
 * Stored change sets: prune finds those that nobody needs, keeps those that would be lost, and records each removal
 * first.
 */

import { existsSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { inProcessStore } from '../../../test/in-process-store.ts'
import { systemClock } from '../../lib/clock.ts'
import { takeFileLock } from '../../lib/file-lock.ts'
import { NEVER_ABORTED } from '../../lib/never-aborted.fixture.ts'
import { currentOwner } from '../../lib/owner.ts'
import type { PromptRun } from '../prompts/prompt-record.ts'
import { beginRun } from '../prompts/runs.ts'
import { LOCK } from './apply-changes.ts'
import { changeSetFolder, keepBaseline, markApplied, readChangeSet } from './change-set.ts'
import { type ChangesScene, file, newChangesScene, storeChanges, write } from './changes.fixture.ts'
import {
  type ChangeSetFolder,
  listChangeSetFolders,
  type PruneDeps,
  removeChangeSet,
} from './prune-change-sets.ts'

const OPERATOR = 'local-user:ada'
const GONE = { ...currentOwner(), bootId: 'another boot' }
const NOTHING = { entries: new Map(), unfit: [], unfitCount: 0 }

function scene(files: Readonly<Record<string, string>> = {}) {
  const store = inProcessStore(systemClock)
  const { workspace } = newChangesScene(files)
  const prunes: PruneDeps = { store, log: store.log, home: store.home, operator: OPERATOR }
  const changesScene: ChangesScene = { workspace, home: store.home.root }
  const findAll = async () => {
    const all: ChangeSetFolder[] = []
    for await (const one of listChangeSetFolders(prunes, NEVER_ABORTED)) all.push(one)
    return Object.fromEntries(all.map((one) => [one.runId, one]))
  }
  const begin = (id: string, more: Partial<PromptRun> = {}) =>
    beginRun(store, {
      schema: 'craik.prompt_run',
      version: '0.1.0',
      id,
      operator_subject: OPERATOR,
      harness: 'fixture',
      sandbox_id: 'sbx_1',
      made_sandbox: true,
      workspace,
      workspace_mode: 'copy',
      agent_session: null,
      resumed_from: null,
      prompt_hash: '0'.repeat(16),
      status: 'running',
      stop_reason: null,
      changed_files: null,
      owner: GONE,
      created_at: new Date(0).toISOString(),
      ended_at: null,
      ...more,
    })
  return { store, place: changesScene, prunes, found: findAll, begin }
}

const addFile = (path: string, content: string) => ({ path, before: null, after: file(content) })

it('a change set can be removed when it is empty, or all of it is or was in the original folder', async () => {
  const { place: changesScene, found } = scene({ 'there.txt': 'new\n' })
  storeChanges(changesScene, [], [], { runId: 'run_none' })
  storeChanges(changesScene, [addFile('there.txt', 'new\n')], ['new\n'], { runId: 'run_there' })
  const worked = storeChanges(changesScene, [addFile('edited.txt', 'new\n')], ['new\n'], {
    runId: 'run_edited',
  })
  markApplied(worked)
  write(changesScene.workspace, { 'edited.txt': 'new, and more\n' })
  expect(await found()).toMatchObject({
    run_none: { isSpare: true, why: 'it changed nothing' },
    run_there: { isSpare: true, why: 'all changes were applied' },
    run_edited: { isSpare: true, why: 'all changes were applied' },
  })
})

it('counts its own bytes and does not follow links', async () => {
  const { place: changesScene, found } = scene()
  const { folder } = storeChanges(changesScene, [addFile('x', 'new\n')], ['new\n'], { runId: 'run_linked' })
  const { bytes } = (await found()).run_linked!
  symlinkSync('..', join(folder, 'up'))
  expect((await found()).run_linked!.bytes).toBe(bytes + '..'.length)
})

it('a change set is kept when a part of it exists nowhere else', async () => {
  const { place: changesScene, found } = scene({ 'there.txt': 'new\n' })
  const changes = [addFile('there.txt', 'new\n'), addFile('missing.txt', 'new\n')]
  storeChanges(changesScene, changes, ['new\n'], { runId: 'run_half' })
  storeChanges({ ...changesScene, workspace: '/nonexistent/folder' }, changes, ['new\n'], {
    runId: 'run_elsewhere',
  })
  // The mark of an apply belongs to the record of that time.
  const first = storeChanges(changesScene, [addFile('x', 'one')], ['one'], { runId: 'run_again' })
  markApplied(first)
  storeChanges(changesScene, [addFile('x', 'two')], ['two'], { runId: 'run_again' })
  expect(await found()).toMatchObject({
    run_half: { isSpare: false, why: '1 file was not applied' },
    run_elsewhere: { isSpare: false, why: '2 files were not applied' },
    run_again: { isSpare: false },
  })
})

it('an interrupted run’s change set can be removed after its sandbox; a running or unreadable one is kept', async () => {
  const { prunes, place: changesScene, found, begin } = scene()
  for (const id of ['run_broken', 'run_going', 'run_damaged']) keepBaseline(prunes.home, id, NOTHING)
  await begin('run_broken')
  await begin('run_going', { owner: currentOwner() })
  await begin('run_damaged')
  writeFileSync(join(changeSetFolder(prunes.home, 'run_damaged'), 'changes.json'), '{', { mode: 0o600 })
  storeChanges(changesScene, [], [], { runId: 'run_theirs', operator: 'local-user:grace' })
  expect(await found()).toMatchObject({
    run_broken: { isSpare: true, why: 'it was interrupted, and its sandbox no longer exists' },
    run_damaged: { isSpare: false },
  })
  expect(Object.keys(await found()).sort()).toEqual(['run_broken', 'run_damaged'])
})

it('removes a change set completely, with a receipt, and not during an apply', async () => {
  const { store, prunes, place: changesScene, found } = scene()
  const changeSet = storeChanges(changesScene, [addFile('x', 'new\n')], ['new\n'], { runId: 'run_gone' })
  const { run_gone } = await found()
  const lock = takeFileLock(join(changeSet.folder, LOCK), 'run lock')
  expect(await removeChangeSet(prunes, run_gone!)).toBe(false)
  lock!.release()
  expect(await readChangeSet(prunes.home, 'run_gone')).toMatchObject({ digest: changeSet.digest })
  expect(await removeChangeSet(prunes, run_gone!)).toBe(true)
  expect(existsSync(changeSet.folder)).toBe(false)
  expect(readdirSync(prunes.home.runs)).toEqual([])
  expect(await store.bodies()).toMatchObject([
    {
      operation: 'prune',
      target: 'run_gone',
      operator: OPERATOR,
      status: 'passed',
      digests: { changes: changeSet.digest },
      metadata: { spare: false },
    },
  ])
})
