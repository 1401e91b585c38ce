/** Processes in the control group of a container that its engine does not have any more. */
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

/** A process in the control group that an engine would make for that container. */
async function inContainer(id: string): Promise<AsyncDisposable & { readonly child: ChildProcess }> {
  const child = spawn('sleep', ['100000'], { stdio: 'ignore' })
  const exited = once(child, 'exit')
  await once(child, 'spawn')
  const folder = join(HIERARCHY, `craik-test-${id.slice(0, 8)}`)
  mkdirSync(join(folder, id), { recursive: true })
  writeFileSync(join(folder, id, 'cgroup.procs'), String(child.pid))
  return {
    child,
    // A group goes when nothing is in it any more, and what was killed is in it until it was waited for.
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL')
      await exited
      for (const path of [join(folder, id), folder]) rmdirSync(path)
    },
  }
}

it.runIf(canBe('root'))(
  `what is left in a container that is gone is ended, and what runs in another one is not${ROOT_IS_NEEDED ?? ''}`,
  async () => {
    const [gone, other] = [randomBytes(32).toString('hex'), randomBytes(32).toString('hex')]
    await using left = await inContainer(gone)
    await using living = await inContainer(other)
    const exited = once(left.child, 'exit')
    await endForgotten(gone)
    expect(await exited).toEqual([null, 'SIGKILL'])
    expect(living.child.signalCode).toBeNull()
    // A name that is none would be in many of them.
    await endForgotten('')
    expect(living.child.signalCode).toBeNull()
  },
)
