/**
 * A user interrupts an agent while its command runs. The agent and the command stop, and the agent accepts another
 * prompt.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import type { LoginScene } from '../gateway/login-scene.ts'
import type { LiveSandbox } from '../sandbox-home.ts'
import { DONE } from './agent-model.ts'
import { type AgentName, beginPrompt, type Prompted, prompt } from './prompt-scene.ts'

const PATIENCE = { timeout: 15_000, interval: 100 }
const BEGINS_MS = 120_000

export async function stopsOnCancel(
  scene: LoginScene,
  name: AgentName,
  box: LiveSandbox,
): Promise<readonly Prompted[]> {
  const args = ['--harness', name, '--sandbox', box.id]
  // The agent of an earlier prompt may take a moment to exit.
  await expect.poll(async () => (await processesIn(box)).filter(isAgent), PATIENCE).toEqual([])
  const before = await processesIn(box)
  const mark = `endless-${name}.txt`
  const endless = beginPrompt(scene, `RUN: echo begun > ${mark}; while :; do sleep 1; done`, args)
  const isOver = endless.ended.then(() => true)
  await fileIn(box, mark, isOver)
  endless.interrupt()
  const stopped = await endless.ended
  expect(stopped, JSON.stringify(stopped, null, 1)).toMatchObject({ code: 130, stderr: '' })
  expect(stopped.events.at(-1)).toMatchObject({ type: 'ended', status: 'cancelled' })
  const shown = await scene.home.json(['run', 'show', stopped.runId, '--format', 'json'])
  expect(shown).toMatchObject({ harness: name, status: 'cancelled', stop_reason: 'cancelled' })
  await expect.poll(() => processesIn(box), PATIENCE).toEqual(before)

  const resumed = await prompt(scene, `RUN: echo after > ${mark}`, ['--resume', stopped.runId])
  expect(resumed, JSON.stringify(resumed, null, 1)).toMatchObject({ code: 0 })
  expect(resumed.said).toContain(DONE)
  expect((await box.exec(['cat', mark])).stdout).toBe('after\n')
  return [stopped, resumed]
}

const isAgent = (commandLine: string) => commandLine.includes('/opt/craik-harnesses/')

/** Returns the command lines of all processes except the one that lists them. */
async function processesIn(box: LiveSandbox): Promise<readonly string[]> {
  const { stdout } = await box.exec([
    'sh',
    '-c',
    'for f in /proc/[0-9]*/cmdline; do tr "\\0\\n" "  " <$f; echo; done',
  ])
  return stdout
    .split('\n')
    .filter((line) => line !== '' && !line.includes('/proc/[0-9]*'))
    .sort()
}

async function fileIn(box: LiveSandbox, path: string, isOver: Promise<boolean>): Promise<void> {
  for (const endsMs = performance.now() + BEGINS_MS; performance.now() < endsMs; ) {
    if ((await box.exec(['test', '-e', path])).code === 0) return
    if (await Promise.race([isOver, sleep(100, false)])) break
  }
  throw new Error(`its command was never begun: there is no ${path}`)
}
