/**
 * Codex at a terminal in a real sandbox. The ChatGPT login stays on the host, or is in the sandbox with `--credentials
 * forward`.
 */
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

it('starts without a question, does what the user types and allows, and never gets the login', async () => {
  const real = await logInFor(scene, 'codex')
  const box = await scene.create(['--name', 'fixer', '--harness', 'codex'])
  const screen = await typeCommand('fixer', box)
  expectRequests(real)
  expect(await scene.hunt({ screen }, ['/opt/craik-harnesses'])).toEqual([])
  // Codex starts no server of its own. For a server, it would copy itself into this folder.
  expect((await box.exec(['ls', '/workspace/home/.codex/packages'])).code).not.toBe(0)
})

it('starts with the real login in the sandbox too, and copies it nowhere', async () => {
  const real = await logInFor(scene, 'codex')
  const box = await scene.create(['--name', 'trusted', '--harness', 'codex', '--credentials', 'forward'])
  const login = `/workspace/home/${FILES.codex}`
  expect((await box.exec(['cat', login])).stdout).toContain(real)
  const screen = await typeCommand('trusted', box)
  expectRequests(real)
  const elsewhere = await scene.hunt({ screen }, ['/opt/craik-harnesses', login])
  const disk = join(scene.home.home, 'sandboxes', box.id, 'disk.img')
  expect(elsewhere.filter((found) => found !== `file: ${disk}`)).toEqual([])
})

async function typeCommand(name: string, box: LiveSandbox): Promise<string> {
  using terminal = new Terminal(scene.home, ['sandbox', 'shell', name], 100, 40)
  const waitForScreen = (text: string) => terminal.says(text, undefined, renderScreen)
  await terminal.says('$')
  terminal.typeText('codex\r')
  await waitForScreen('default · ~/project')
  terminal.typeText('RUN: echo made > proof.txt')
  await waitForScreen('› RUN: echo made > proof.txt')
  terminal.typeText('\r')
  await waitForScreen('Would you like to run the following command?')
  terminal.typeText('y')
  await waitForScreen(DONE)
  expect((await box.exec(['cat', 'proof.txt'])).stdout).toBe('made\n')
  return terminal.screen
}

/** Checks that only the gateway sent the requests, with the login from the host. */
function expectRequests(real: string): void {
  const calls = scene.providers.take()
  const paths = new Set(calls.map(({ path }) => path.replace(/\?.*/, '')))
  expect([...paths].sort()).toEqual(['/models', '/responses'])
  for (const { service, status, headers } of calls) {
    expect({ service, status }).toEqual({ service: 'codex', status: 200 })
    expect(headers.authorization).toBe(`Bearer ${real}`)
  }
}
