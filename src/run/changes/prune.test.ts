/** What is kept of runs: what nobody needs is found, what would be lost is not, and what goes is on record before. */
import { existsSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { inProcessStore } from '../../../test/in-process-store.ts'
import { systemClock } from '../../lib/clock.ts'
import { takeFileLock } from '../../lib/file-lock.ts'
import { currentOwner } from '../../lib/owner.ts'
import type { PromptRun } from '../prompts/record.ts'
import { beginRun } from '../prompts/runs.ts'
import { LOCK } from './apply.ts'
import { changeSetFolder, keepBaseline, markApplied, readChangeSet } from './change-set.ts'
import { type ChangesScene, file, keep, never, newChangesScene, write } from './changes.fixture.ts'
import { type ChangeSetFolder, keptRunFolders, type PruneDeps, removeChangeSet } from './prune.ts'

const OPERATOR = 'local-user:ada'
const GONE = { ...currentOwner(), bootId: 'another boot' }
const NOTHING = { entries: new Map(), unfit: [], unfitCount: 0 }

function scene(files: Readonly<Record<string, string>> = {}) {
  const store = inProcessStore(systemClock)
  const { workspace } = newChangesScene(files)
  const prunes: PruneDeps = { store, log: store.log, home: store.home, operator: OPERATOR }
  const place: ChangesScene = { workspace, home: store.home.root }
  const found = async () => {
    const all: ChangeSetFolder[] = []
    for await (const one of keptRunFolders(prunes, never)) all.push(one)
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
  return { store, place, prunes, found, begin }
}

const added = (path: string, content: string) => ({ path, before: null, after: file(content) })

it('can go when it changed nothing, or all of it is in the folder here, or was', async () => {
  const { place, found } = scene({ 'there.txt': 'new\n' })
  keep(place, [], [], { runId: 'run_none' })
  keep(place, [added('there.txt', 'new\n')], ['new\n'], { runId: 'run_there' })
  const worked = keep(place, [added('edited.txt', 'new\n')], ['new\n'], { runId: 'run_edited' })
  markApplied(worked)
  write(place.workspace, { 'edited.txt': 'new, and more\n' })
  expect(await found()).toMatchObject({
    run_none: { isSpare: true, why: 'it changed nothing' },
    run_there: { isSpare: true, why: 'all changes were applied' },
    run_edited: { isSpare: true, why: 'all changes were applied' },
  })
})

it('counts its own bytes, and none behind a link', async () => {
  const { place, found } = scene()
  const { folder } = keep(place, [added('x', 'new\n')], ['new\n'], { runId: 'run_linked' })
  const { bytes } = (await found()).run_linked!
  symlinkSync('..', join(folder, 'up'))
  expect((await found()).run_linked!.bytes).toBe(bytes + '..'.length)
})

it('is held when something of it is nowhere else', async () => {
  const { place, found } = scene({ 'there.txt': 'new\n' })
  const changes = [added('there.txt', 'new\n'), added('missing.txt', 'new\n')]
  keep(place, changes, ['new\n'], { runId: 'run_half' })
  keep({ ...place, workspace: '/nonexistent/folder' }, changes, ['new\n'], { runId: 'run_elsewhere' })
  // The mark of an apply is of what was kept then.
  const first = keep(place, [added('x', 'one')], ['one'], { runId: 'run_again' })
  markApplied(first)
  keep(place, [added('x', 'two')], ['two'], { runId: 'run_again' })
  expect(await found()).toMatchObject({
    run_half: { isSpare: false, why: '1 file was not applied' },
    run_elsewhere: { isSpare: false, why: '2 files were not applied' },
    run_again: { isSpare: false },
  })
})

it('of one that was broken off can go with its sandbox; one that goes on, or cannot be read, is left', async () => {
  const { prunes, place, found, begin } = scene()
  for (const id of ['run_broken', 'run_going', 'run_damaged']) keepBaseline(prunes.home, id, NOTHING)
  await begin('run_broken')
  await begin('run_going', { owner: currentOwner() })
  await begin('run_damaged')
  writeFileSync(join(changeSetFolder(prunes.home, 'run_damaged'), 'changes.json'), '{', { mode: 0o600 })
  keep(place, [], [], { runId: 'run_theirs', operator: 'local-user:grace' })
  expect(await found()).toMatchObject({
    run_broken: { isSpare: true, why: 'it was interrupted, and its sandbox no longer exists' },
    run_damaged: { isSpare: false },
  })
  expect(Object.keys(await found()).sort()).toEqual(['run_broken', 'run_damaged'])
})

it('goes with a receipt, whole, and not while it is brought over', async () => {
  const { store, prunes, place, found } = scene()
  const kept = keep(place, [added('x', 'new\n')], ['new\n'], { runId: 'run_gone' })
  const { run_gone } = await found()
  const lock = takeFileLock(join(kept.folder, LOCK), 'run lock')
  expect(await removeChangeSet(prunes, run_gone!)).toBe(false)
  lock!.release()
  expect(await readChangeSet(prunes.home, 'run_gone')).toMatchObject({ digest: kept.digest })
  expect(await removeChangeSet(prunes, run_gone!)).toBe(true)
  expect(existsSync(kept.folder)).toBe(false)
  expect(readdirSync(prunes.home.runs)).toEqual([])
  expect(await store.bodies()).toMatchObject([
    {
      operation: 'prune',
      target: 'run_gone',
      operator: OPERATOR,
      status: 'passed',
      digests: { changes: kept.digest },
      metadata: { spare: false },
    },
  ])
})
