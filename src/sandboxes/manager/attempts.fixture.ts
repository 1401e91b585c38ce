/** One attempt of every operation of the table. */
import { Readable } from 'node:stream'
import { expect } from 'vitest'
import type { SandboxId } from '../../lib/ids.ts'
import type { SupervisedSandboxes } from '../manager.ts'
import type { ManagerCaller } from '../manager-types.ts'
import { OPERATIONS, type OperationName } from '../operations.ts'
import { caller, exec, jobId, type ManagerScene, SANDBOX_REQUEST } from './manager.fixture.ts'

type Attempt = (manager: SupervisedSandboxes, by: ManagerCaller, id: SandboxId) => Promise<unknown>

/** The type makes this exhaustive: a new operation of the table needs an attempt. */
export const ATTEMPTS: Readonly<Record<OperationName, Attempt>> = {
  create: (manager, by) => manager.create(by, SANDBOX_REQUEST),
  stop: (manager, by, id) => manager.stop(by, id),
  pause: (manager, by, id) => manager.pause(by, id),
  resume: (manager, by, id) => manager.resume(by, id),
  snapshot: (manager, by, id) => manager.snapshot(by, id),
  restore: (manager, by, id) => manager.restore(by, id, 'nonesuch'),
  delete: (manager, by, id) => manager.delete(by, id),
  exec: (manager, by, id) => manager.jobs.start(by, id, jobId(), { spec: exec('touch', 'reached') }),
  terminal: (manager, by, id) =>
    manager.jobs.start(by, id, jobId(), {
      spec: { kind: 'terminal', argv: ['touch', 'reached'], cols: 80, rows: 24 },
    }),
  tar_in: (manager, by, id) => manager.jobs.start(by, id, jobId(), { spec: { kind: 'tar-in', path: '.' } }),
  tar_out: (manager, by, id) => manager.jobs.start(by, id, jobId(), { spec: { kind: 'tar-out', path: '.' } }),
  file_read: (manager, by, id) => manager.files.read(by, id, 'there', { offset: 0 }),
  file_stat: (manager, by, id) => manager.files.stat(by, id, 'there'),
  file_list: (manager, by, id) => manager.files.list(by, id, '.', undefined, 10),
  file_watch: (manager, by, id) => manager.files.watch(by, id, '.', false, 0),
  file_write: (manager, by, id) =>
    manager.files.write(
      by,
      id,
      { upload: jobId(), path: 'reached', bytes: 1, mode: 0o644 },
      0,
      Readable.from([Buffer.from('x')]),
    ),
  file_move: (manager, by, id) =>
    manager.files.change(by, id, { kind: 'move', from: 'there', to: 'reached' }),
  file_remove: (manager, by, id) =>
    manager.files.change(by, id, { kind: 'remove', path: 'there', recursive: false }),
  file_mkdir: (manager, by, id) =>
    manager.files.change(by, id, { kind: 'mkdir', path: 'reached', parents: false }),
  forward: (manager, by, id) => manager.inside.connect(by, id, 9),
  processes: (manager, by, id) => manager.inside.processes(by, id),
  metrics: (manager, by, id) => manager.inside.stats(by, id),
  jobs: (manager, by, id) => manager.jobs.list(by, id),
  put_logins: (manager, by, id) => manager.inside.putLogins(by, id),
  signal: (manager, by, id) => manager.inside.signal(by, id, 4_000_000, 'SIGCONT'),
}

/**
 * Tries every operation as a user without grants. Each is recorded as a denial and the boundary counts none. Closes the
 * manager.
 */
export async function requireAllDenied(scene: ManagerScene, id: SandboxId): Promise<void> {
  const by = caller('local-user:mallory')
  for (const [name, attempt] of Object.entries(ATTEMPTS)) {
    const { capability, operation } = OPERATIONS[name as OperationName]
    const before = (await scene.receipts()).length
    await expect(attempt(scene.manager, by, id), name).rejects.toMatchObject({ code: 'denied' })
    const written = (await scene.receipts()).slice(before)
    expect(written.filter(({ kind }) => kind === 'denial')).toMatchObject([{ capability, operation }])
    expect(written.filter(({ phase }) => phase === 'begin')).toEqual([])
  }
  expect((await scene.manager.list()).map((view) => [view.id, view.state])).toEqual([[id, 'running']])
  await scene.manager.close()
  const [counts] = await scene.receipts({ capability: 'sandbox.boundary' })
  const opened = counts?.measures?.filter((measure) => !measure.name.startsWith('bytes_'))
  expect(opened).toHaveLength(7)
  expect(opened?.filter(({ value }) => value !== 0)).toEqual([])
}
