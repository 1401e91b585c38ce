/** Codex as a person types at it, in a real sandbox, with a ChatGPT login that stays outside, or is inside because that was chosen. */
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { FILES, type LoginScene } from '../gateway/login-scene.ts'
import { HARNESSES_MS } from '../harness-image.ts'
import { DONE } from '../harnesses/agent-model.ts'
import { FaultyAnswers } from '../harnesses/agent-providers.ts'
import { logInFor, openPrompts } from '../harnesses/prompt-scene.ts'
import type { LiveSandbox } from '../sandbox-home.ts'
import { Terminal } from './interactive-user.ts'
import { renderScreen } from './terminal-screen.ts'

let scene: LoginScene
beforeAll(async () => {
  scene = await openPrompts({ identity: 'root' }, new FaultyAnswers().answer)
}, HARNESSES_MS)
afterAll(() => scene?.[Symbol.asyncDispose]())

it('starts without a question, does what is typed once that is allowed, and never has the login', async () => {
  const real = await logInFor(scene, 'codex')
  const box = await scene.create(['--name', 'fixer', '--harness', 'codex'])
  const screen = await doesWhatIsTyped('fixer', box)
  expectRequests(real)
  expect(await scene.hunt({ screen }, ['/opt/craik-harnesses'])).toEqual([])
  // No server of its own stays behind, for which it would copy itself into the home.
  expect((await box.exec(['ls', '/workspace/home/.codex/packages'])).code).not.toBe(0)
})

it('starts as well where the real login is inside, and leaves it where it is', async () => {
  const real = await logInFor(scene, 'codex')
  const box = await scene.create(['--name', 'trusted', '--harness', 'codex', '--credentials', 'forward'])
  const login = `/workspace/home/${FILES.codex}`
  expect((await box.exec(['cat', login])).stdout).toContain(real)
  const screen = await doesWhatIsTyped('trusted', box)
  expectRequests(real)
  const elsewhere = await scene.hunt({ screen }, ['/opt/craik-harnesses', login])
  const disk = join(scene.home.home, 'sandboxes', box.id, 'disk.img')
  expect(elsewhere.filter((found) => found !== `file: ${disk}`)).toEqual([])
})

async function doesWhatIsTyped(name: string, box: LiveSandbox): Promise<string> {
  using terminal = new Terminal(scene.home, ['sandbox', 'shell', name], 100, 40)
  const sees = (text: string) => terminal.says(text, undefined, renderScreen)
  await terminal.says('$')
  terminal.types('codex\r')
  await sees('default · ~/project')
  terminal.types('RUN: echo made > proof.txt')
  await sees('› RUN: echo made > proof.txt')
  terminal.types('\r')
  await sees('Would you like to run the following command?')
  terminal.types('y')
  await sees(DONE)
  expect((await box.exec(['cat', 'proof.txt'])).stdout).toBe('made\n')
  return terminal.screen
}

/** By the gateway alone, which has the login from outside. */
function expectRequests(real: string): void {
  const calls = scene.providers.take()
  const paths = new Set(calls.map(({ path }) => path.replace(/\?.*/, '')))
  expect([...paths].sort()).toEqual(['/models', '/responses'])
  for (const { service, status, headers } of calls) {
    expect({ service, status }).toEqual({ service: 'codex', status: 200 })
    expect(headers.authorization).toBe(`Bearer ${real}`)
  }
}
