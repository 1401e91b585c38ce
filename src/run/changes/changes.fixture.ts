/** A workspace on the host and changes to it. Tests write the sandbox’s part themselves. */
import { mkdirSync, realpathSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { tempFolder } from '../../../test/temp-folder.ts'
import { homeAt } from '../../store/home.ts'
import {
  changeSetFolder,
  contentsIn,
  type State,
  type StoredChange,
  type StoredChangeSet,
  writeRecord,
} from './change-set.ts'
import { sha256 } from './content-store.ts'
import type { WorkspaceRunner } from './workspace-runner.ts'

const RUN_ID = 'run_01JCQ3V8Z0W4N5T6R7Y8K9M2PD'

export function file(content: string, executable = false): Extract<State, { kind: 'file' }> {
  return { kind: 'file', digest: sha256(content), bytes: Buffer.byteLength(content), executable }
}

export function link(target: string): State {
  return { kind: 'link', target }
}

export interface ChangesScene {
  readonly workspace: string
  readonly home: string
}

/** Creates a folder with these files, and a home next to it. */
export function newChangesScene(files: Readonly<Record<string, string>>): ChangesScene {
  const folder = realpathSync(tempFolder('craik-changes-'))
  const workspace = join(folder, 'workspace')
  mkdirSync(workspace)
  write(workspace, files)
  return { workspace, home: join(folder, 'home') }
}

export function write(folder: string, files: Readonly<Record<string, string>>): void {
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), content)
  }
}

/** Stores changes with these contents. */
export function storeChanges(
  scene: ChangesScene,
  changes: readonly StoredChange[],
  contents: readonly string[] = [],
  { runId = RUN_ID, operator = 'local-user:ada' } = {},
): StoredChangeSet {
  const home = homeAt(scene.home)
  const folder = changeSetFolder(home, runId)
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const store = contentsIn(folder)
  store.create()
  for (const content of contents) store.put(Buffer.from(content))
  return writeRecord(folder, {
    schema: 'craik.run_changes',
    version: 1,
    run_id: runId,
    sandbox_id: 'sbx_1',
    operator_subject: operator,
    workspace: scene.workspace,
    kept_at: new Date(0).toISOString(),
    changes: [...changes].sort((a, b) => (a.path < b.path ? -1 : 1)),
    left: [],
    left_count: 0,
  })
}

/** Returns a sandbox that answers each program with these chunks. */
export function answering(...answers: readonly (readonly Buffer[])[]): WorkspaceRunner {
  let next = 0
  return {
    async runNode({ onOutput }) {
      for (const chunk of answers[next++] ?? []) await onOutput(chunk)
    },
  }
}
