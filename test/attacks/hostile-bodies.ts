/** The requirements for hostile request bodies from every kind of sandbox. */
import { copyFileSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'vitest'
import { type LoginScene, NODE_INSIDE } from '../gateway/login-scene.ts'

const ROUNDS = 2
const CONNECTIONS = 4
/** Linux counts CPU time in hundredths of a second. */
const TICKS_PER_SECOND = 100
/**
 * Reading one such body on the main thread took 8 s of CPU time. Without that, all eight and their calls take far less.
 */
const MAIN_THREAD_SECONDS_MAX = 4

/**
 * Sends small bodies that unpack to 33 MB of numbers, and checks that they do not block the supervisor's main thread.
 */
export async function refusesHostileBodies(scene: LoginScene): Promise<void> {
  scene.logIn('claude')
  const hostile = await scene.create([], (workspace) =>
    copyFileSync(
      join(import.meta.dirname, 'hostile-bodies.fixture.ts'),
      join(workspace, 'hostile-bodies.ts'),
    ),
  )
  const other = await scene.create()
  expect(await scene.ask(other, [{ form: 'claude' }])).toMatchObject([{ status: 200 }])
  scene.providers.take()
  const { pid } = await scene.home.json<{ readonly pid: number }>([
    'supervisor',
    'status',
    '--format',
    'json',
  ])

  const before = mainThreadTicks(pid)
  const attack = hostile.exec([NODE_INSIDE, '--no-warnings', 'hostile-bodies.ts', String(ROUNDS)])
  const neighbour = await other.exec(['echo', 'still here'])
  const { code, stdout, stderr } = await attack
  const seconds = (mainThreadTicks(pid) - before) / TICKS_PER_SECOND

  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  const replies = stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
  expect(replies).toHaveLength(ROUNDS * CONNECTIONS)
  for (const { status, text } of replies) {
    expect({ status, text }).toMatchObject({ status: 413 })
    expect(JSON.parse(text)).toMatchObject({ type: 'error', error: { type: 'request_too_large' } })
  }
  expect(neighbour).toMatchObject({ code: 0, stdout: 'still here\n' })
  expect(scene.providers.take()).toEqual([])
  expect(seconds).toBeLessThan(MAIN_THREAD_SECONDS_MAX)
  // The same sandbox still works, and so does the other one.
  for (const box of [hostile, other])
    expect(await scene.ask(box, [{ form: 'claude' }])).toMatchObject([{ status: 200 }])
}

/** Returns the CPU time of the thread that runs the event loop. */
function mainThreadTicks(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/task/${pid}/stat`, 'latin1')
  const [user, system] = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .slice(11, 13)
  return Number(user) + Number(system)
}
