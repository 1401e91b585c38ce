/** Processes in the control group of a container that its engine no longer has. */
import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdirSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { endForgotten } from '../../src/sandboxes/backends/docker/orphan-processes.ts'
import { canBe, ROOT_IS_NEEDED } from '../sandbox-home.ts'

const [unified, first] = ['/sys/fs/cgroup', '/sys/fs/cgroup/pids']
const HIERARCHY = existsSync(join(unified, 'cgroup.procs')) ? unified : first

/** Starts a process in the control group that an engine would create for the container. */
async function startInControlGroup(id: string): Promise<AsyncDisposable & { readonly child: ChildProcess }> {
  const child = spawn('sleep', ['100000'], { stdio: 'ignore' })
  const exited = once(child, 'exit')
  await once(child, 'spawn')
  const folder = join(HIERARCHY, `craik-test-${id.slice(0, 8)}`)
  mkdirSync(join(folder, id), { recursive: true })
  writeFileSync(join(folder, id, 'cgroup.procs'), String(child.pid))
  return {
    child,
    // A control group can be removed when it is empty. A killed process stays in it until it was reaped.
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL')
      await exited
      for (const path of [join(folder, id), folder]) rmdirSync(path)
    },
  }
}

it.runIf(canBe('root'))(
  `processes of a missing container are ended, and those of another container are not${ROOT_IS_NEEDED ?? ''}`,
  async () => {
    const [gone, other] = [randomBytes(32).toString('hex'), randomBytes(32).toString('hex')]
    await using left = await startInControlGroup(gone)
    await using living = await startInControlGroup(other)
    const exited = once(left.child, 'exit')
    await endForgotten(gone)
    expect(await exited).toEqual([null, 'SIGKILL'])
    expect(living.child.signalCode).toBeNull()
    // An empty id would match many control groups.
    await endForgotten('')
    expect(living.child.signalCode).toBeNull()
  },
)
